"""What compaction does to a branch record: take a slot, install a result. Pure: record in, record out.

Both are one swap each. A slot is written only with a token greater than every one before, always
overwrites, and blocks nobody; the holder of the newest token is the only one whose result counts.
What an install replaces is retired by the same swap, so that readers of the old record finish.
"""

from collections.abc import Set as AbstractSet
from dataclasses import replace

from lakebed.compaction.guard import Refusal, claim_refusal, install_refusal, place_of, slot_of
from lakebed.env.clock import Instant
from lakebed.errors import ConflictError, ErrorKind
from lakebed.model.branch import Branch, Slot
from lakebed.model.compaction import (
    FoldOutput,
    JobKind,
    JobState,
    Output,
    Schedule,
    Source,
    Spec,
    TreeOutput,
    sources_of,
)
from lakebed.model.ids import Nonce
from lakebed.model.layers import Layer, RetiredLayer


class RefusedError(ConflictError):
    """The branch is no longer what the job was planned on; `refusal` says in what."""

    refusal: Refusal


def claim(branch: Branch, spec: Spec, *, token: int, now: Instant) -> Branch:
    """Give the slot for jobs of its kind to `spec` under `token`, whoever has it.

    Raises:
        RefusedError: the spec no longer fits the branch, or the token is not newer than all before.
    """
    refusal = claim_refusal(branch, spec, token=token, now=now)
    if refusal is not None:
        raise _refused(spec, refusal)
    return replace(_with_slot(branch, spec.kind, Slot(job=spec.id, token=token)), last_token=token)


def install(branch: Branch, spec: Spec, output: Output, *, token: int, now: Instant) -> Branch:
    """Put the result of a job in the place of what it was made from, and free the slot.

    Raises:
        RefusedError: a part of the guard does not hold; the branch stays as it is.
    """
    refusal = install_refusal(branch, spec, token=token, now=now)
    if refusal is not None:
        raise _refused(spec, refusal)
    start = place_of(branch, spec)
    assert start is not None, "the guard has found the run"
    stop = start + len(spec.sources)
    above, taken, below = branch.sealed[:start], branch.sealed[start:stop], branch.sealed[stop:]
    freed = replace(
        _with_slot(branch, spec.kind, None),
        retired=(*branch.retired, *(RetiredLayer(layer=layer, at=now) for layer in taken)),
    )
    match output:
        case FoldOutput(layer=layer):
            assert spec.kind is JobKind.FOLD, "a fold makes a segment"
            # The newest source's place: above what is older, below what came later.
            made: tuple[Layer, ...] = () if layer is None else (replace(layer, seq=taken[0].seq),)
            return replace(freed, sealed=(*above, *made, *below))
        case TreeOutput(tree=tree, counts=counts):
            assert spec.kind is JobKind.L2, "L2 makes a tree"
            return replace(
                freed,
                sealed=above,
                compacted=tree,
                compacted_counts=counts if tree is not None else None,
                parked=branch.parked and bool(above),
                retired_trees=(
                    branch.retired_trees if tree == branch.compacted else branch.with_tree_retired(now)
                ),
            )


def without_stale_slots(branch: Branch, schedule: Schedule) -> Branch:
    """Return the branch without slots whose jobs are over, or itself: what those wrote would never be let go.

    The schedule must have been read before the branch. A slot that it cannot know of yet stays.
    """
    live = {job.token for job in schedule.jobs if job.state is not JobState.PARKED}
    for kind in JobKind:
        slot = slot_of(branch, kind)
        if slot is not None and slot.token not in live and slot.token <= schedule.token_floor:
            branch = _with_slot(branch, kind, None)
    return branch


def stuck_sources(schedule: Schedule) -> dict[Nonce, set[Source]]:
    """Return the layers of each branch, by its incarnation, that no job will take away unless somebody asks.

    They are those of parked jobs, and those held because such a job has made room.
    """
    stuck: dict[Nonce, set[Source]] = {}
    for job in schedule.jobs:
        if job.state is JobState.PARKED:
            stuck.setdefault(job.spec.incarnation, set()).update(job.spec.sources)
    for held in schedule.held:
        stuck.setdefault(held.incarnation, set()).add(held.source)
    return stuck


def with_parked(branch: Branch, stuck: AbstractSet[Source]) -> Branch:
    """Return the branch saying whether one of its layers is `stuck`, or itself: its writers read no schedule.

    Whichever of two schedulers has read the older document, the next poll puts it right.
    """
    parked = bool(stuck) and not stuck.isdisjoint(sources_of(branch.sealed))
    return branch if parked == branch.parked else replace(branch, parked=parked)


def has_landed(branch: Branch, spec: Spec, output: Output, *, token: int) -> bool:
    """Return whether the record carries the result of this very install, as far as it still tells."""
    slot = slot_of(branch, spec.kind)
    if branch.incarnation != spec.incarnation or (slot is not None and slot.token == token):
        return False
    if place_of(branch, spec) is not None:
        return False
    match output:
        case FoldOutput(layer=layer):
            return layer is not None and replace(layer, seq=spec.sources[0].seq) in branch.sealed
        case TreeOutput(tree=tree):
            return tree is not None and branch.compacted == tree


def _with_slot(branch: Branch, kind: JobKind, slot: Slot | None) -> Branch:
    return replace(branch, l2_slot=slot) if kind is JobKind.L2 else replace(branch, fold_slot=slot)


def _refused(spec: Spec, refusal: Refusal) -> RefusedError:
    error = RefusedError(
        ErrorKind.VERSION_CHANGED, f"{spec.kind} {spec.id} of branch {spec.branch}: {refusal.value}"
    )
    error.refusal = refusal
    return error
