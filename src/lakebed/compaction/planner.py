"""A branch's layers to the specs of jobs. Pure: it sees sizes, never bytes.

    fold   a run of neighbours of a level or below, oldest such run first: `fold_layers` of them, or two of a quiet
           branch. What it makes is one level up, so a row is rewritten once for every factor of `fold_layers`
    l2     the oldest layers, as many as one job may read, once the sensor gives a reason

No run contains a layer that a live job reads, that is parked or held, or that an operation on
HEAD builds on. The tree is planned first: what goes there need not be folded before.
"""

from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from itertools import takewhile

from lakebed.compaction.guard import is_covered
from lakebed.compaction.limits import CompactionLimits
from lakebed.compaction.load import Load, Loads, load_of
from lakebed.compaction.sensor import is_quiet, l2_reason
from lakebed.env.clock import Instant
from lakebed.model.branch import Branch
from lakebed.model.compaction import JobKind, Source, Spec, source_of, sources_of
from lakebed.model.layers import Layer, SegmentLayer

# A fold of what is quiet takes any level; no branch has layers of as many.
_ANY_LEVEL = 64
# A fold of one layer makes nothing new.
_FOLD_LAYERS_MIN = 2


def plan(
    branch: Branch,
    *,
    busy: AbstractSet[Source],
    loads: Loads,
    now: Instant,
    limits: CompactionLimits,
    forced: bool = False,
) -> tuple[Spec, ...]:
    """Return what should be done now, at most one job of each kind, lower levels first.

    `busy` are the sources that no job may touch. `forced` asks for everything to go into the tree whatever its size.
    """
    tree = _plan_l2(branch, busy=busy, loads=loads, now=now, limits=limits, forced=forced)
    taken = busy | set(tree.sources) if tree is not None else busy
    fold = _plan_fold(branch, busy=taken, loads=loads, now=now, limits=limits)
    return tuple(spec for spec in (fold, tree) if spec is not None)


def _plan_l2(
    branch: Branch,
    *,
    busy: AbstractSet[Source],
    loads: Loads,
    now: Instant,
    limits: CompactionLimits,
    forced: bool,
) -> Spec | None:
    reason = "asked for" if forced else l2_reason(branch, loads=loads, now=now, limits=limits)
    oldest_first = takewhile(lambda layer: source_of(layer) not in busy, reversed(branch.sealed))
    run = _within(list(oldest_first), limits.l2_rows_max, limits.l2_bytes_max, loads)
    if reason is None or not run or is_covered(branch, JobKind.L2, sources_of(run), now=now):
        return None
    return _spec(branch, JobKind.L2, run, reason)


def _plan_fold(
    branch: Branch, *, busy: AbstractSet[Source], loads: Loads, now: Instant, limits: CompactionLimits
) -> Spec | None:
    levels = sorted({level_of(layer) for layer in branch.sealed})
    for level in levels:
        for run in _runs(branch, level, busy=busy, now=now):
            chosen = _within(
                run[: limits.fold_layers_max], limits.fold_rows_max, limits.fold_bytes_max, loads
            )
            if len(chosen) >= max(limits.fold_layers, _FOLD_LAYERS_MIN):
                return _spec(branch, JobKind.FOLD, chosen, f"{len(chosen)} layers of level {level}")
    if not is_quiet(branch, limits.fold_quiet_seconds, now):
        return None
    for run in _runs(branch, _ANY_LEVEL, busy=busy, now=now):
        chosen = _within(run[: limits.fold_layers_max], limits.fold_rows_max, limits.fold_bytes_max, loads)
        if len(chosen) >= _FOLD_LAYERS_MIN:
            return _spec(branch, JobKind.FOLD, chosen, f"{len(chosen)} layers of a quiet branch")
    return None


def _runs(branch: Branch, level: int, *, busy: AbstractSet[Source], now: Instant) -> Iterator[list[Layer]]:
    """Yield the runs of neighbours that may be folded, oldest run first, each oldest layer first."""
    run: list[Layer] = []
    for layer in reversed(branch.sealed):
        source = source_of(layer)
        if (
            level_of(layer) <= level
            and source not in busy
            and not is_covered(branch, JobKind.FOLD, (source,), now=now)
        ):
            run.append(layer)
            continue
        if run:
            yield run
        run = []
    if run:
        yield run


def _within(run: Sequence[Layer], rows_max: int, bytes_max: int, loads: Loads) -> list[Layer]:
    """Return as many of the layers, oldest first, as one job may read; one, however large."""
    chosen: list[Layer] = []
    total = Load()
    for layer in run:
        total += load_of(layer, loads)
        if chosen and (total.rows > rows_max or total.bytes > bytes_max):
            break
        chosen.append(layer)
    return chosen


def level_of(layer: Layer) -> int:
    """Return how often the rows of a layer were folded."""
    return layer.level if isinstance(layer, SegmentLayer) else 0


def _spec(branch: Branch, kind: JobKind, oldest_first: Sequence[Layer], reason: str) -> Spec:
    return Spec(
        branch=branch.name,
        incarnation=branch.incarnation,
        kind=kind,
        sources=sources_of(list(reversed(oldest_first))),
        commit_id=branch.commit_id,
        compacted=branch.compacted,
        reason=reason,
    )
