"""Every safeguard of compaction is needed: taken out, the simulation finds what goes wrong within a few seeds.

Some safeguards stand behind others: while slots are cleared and names never come back, they have nothing to refuse. Each
of those is shown twice: with the ones before it taken out and itself in place, nothing goes wrong; without it, it does.
"""

from collections.abc import Callable
from dataclasses import replace

import pytest

from lakebed.compaction import guard, install, planner
from lakebed.compaction.guard import Refusal
from lakebed.env.clock import Instant
from lakebed.model import segments
from lakebed.model.branch import Branch, BranchRecord, DeletedBranch
from lakebed.model.compaction import Spec
from lakebed.refs import cleaner, segment_sweeper
from lakebed.refs.cleaner import Cleaner
from lakebed.refs.keys import TODO_PARTITION
from lakebed.refs.segment_sweeper import SegmentSweeper
from lakebed.refs.todo import TodoIndex
from lakebed.staging import record
from lakebed.staging.writer import BranchWriter
from lakebed.testing.simulation import world
from lakebed.testing.simulation.install_laws import InstallLaws
from lakebed.testing.simulation.run import play
from lakebed.versioning import head, merge
from lakebed.versioning.head import HeadChanges

# Each is found in at least every fifth seed: see `python -m tests.simulation.shares`.
SEEDS = 30
# With all in place there is nothing to find, and each seed costs a second or two.
SEEDS_IN_PLACE = 3

Plant = Callable[[pytest.MonkeyPatch], None]


def without(*parts: Refusal) -> Plant:
    """Return a plant that takes parts out of the install guard."""

    def plant(patch: pytest.MonkeyPatch) -> None:
        def refusal(found: BranchRecord | None, spec: Spec, *, token: int, now: Instant) -> Refusal | None:
            refusals = guard.install_refusals(found, spec, token=token, now=now)
            return next((each for each in refusals if each not in parts), None)

        patch.setattr(install, "install_refusal", refusal)
        if Refusal.SOURCES in parts:
            patch.setattr(install, "place_of", place_anywhere)

    return plant


def place_anywhere(branch: Branch, spec: Spec) -> int:
    found = guard.place_of(branch, spec)
    return found if found is not None else max(0, len(branch.sealed) - len(spec.sources))


# What readers see has changed though nobody has changed anything.
HIDDEN = "may change nothing"


def slots_kept_by_heads(patch: pytest.MonkeyPatch) -> None:
    original = record._without_tree

    def without_tree(branch: Branch, now: Instant) -> Branch:
        return replace(original(branch, now), l2_slot=branch.l2_slot, fold_slot=branch.fold_slot)

    patch.setattr(record, "_without_tree", without_tree)


def pending_operations_ignored(patch: pytest.MonkeyPatch) -> None:
    """Plan, claim and install on what commits build on. That is against a law of its own, which looks away here."""
    for module in (guard, planner):
        patch.setattr(module, "is_covered", lambda *_args, **_rest: False)
    patch.setattr(InstallLaws, "_check_pending", lambda *_args, **_rest: None)


def together(*plants: Plant) -> Plant:
    def plant(patch: pytest.MonkeyPatch) -> None:
        for each in plants:
            each(patch)

    return plant


def nothing(_patch: pytest.MonkeyPatch) -> None:
    pass


def found_at(scenario: str, seeds: range, *, law: str = "") -> int | None:
    """Return the first seed that breaks a law, or the one with these words; None if none does."""
    for seed in seeds:
        try:
            play(scenario, seed)
        except AssertionError as error:
            if law in str(error):
                return seed
    return None


def rows_sent_again_without_sealing(patch: pytest.MonkeyPatch) -> None:
    """After an unknown outcome, look without closing the door first."""

    async def read_back(self, token, keys):
        items = await self._kv.get_many([(token, key) for key in keys])
        return items, False

    patch.setattr(BranchWriter, "_read_back", read_back)


def retired_layers_not_read_back(patch: pytest.MonkeyPatch) -> None:
    """After an unknown outcome, look for rows only in a live layer: a commit may have taken it along by now."""
    original = BranchWriter._read_back

    async def read_back(self, token, keys):
        items, dropped = await original(self, token, keys)
        branch = (await self._branches.get(self._repo, self._name)).value
        return (items, dropped) if record.names_token(branch, token) else ([None] * len(keys), False)

    patch.setattr(BranchWriter, "_read_back", read_back)


def heads_that_do_not_seal(patch: pytest.MonkeyPatch) -> None:
    original = head.begin

    def begin(branch, nonce, commits, now, **rest):
        begun = original(branch, nonce, commits, now, **rest)
        return replace(
            begun, staging_token=branch.staging_token, sealed=branch.sealed, next_seq=branch.next_seq
        )

    patch.setattr(head, "begin", begin)


def heads_that_keep_layers(patch: pytest.MonkeyPatch) -> None:
    original = head.finish

    def finish(branch, nonce, **rest):
        return replace(original(branch, nonce, **rest), sealed=branch.sealed, retired=branch.retired)

    patch.setattr(head, "finish", finish)


def heads_that_stay_pending(patch: pytest.MonkeyPatch) -> None:
    """Leave the entry of an operation that was refused to its time-out."""

    async def give_up(self, operation):
        return None

    patch.setattr(HeadChanges, "_give_up", give_up)


def heads_without_turns(patch: pytest.MonkeyPatch) -> None:
    """Let nobody go first, and every try begin from nothing."""
    patch.setattr(head, "next_in_line", lambda *_args: None)
    patch.setattr(merge._Tries, "last", lambda *_args: None)


def tries_from_nothing(patch: pytest.MonkeyPatch) -> None:
    """Let every try begin from nothing, and whoever is quick wait for it."""
    patch.setattr(merge._Tries, "last", lambda *_args: None)


def tokens_that_come_back_after_a_restore(patch: pytest.MonkeyPatch) -> None:
    """Restore the database, and forget to raise the epoch."""
    patch.setattr(world, "next_epoch", lambda schedule, **_rest: schedule)


def segments_swept_within_the_grace(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        cleaner.Cleaner,
        "_grace_seconds",
        property(lambda _self: 0.0, lambda _self, _value: None),
        raising=False,
    )


def segments_swept_whoever_refers_to_them(patch: pytest.MonkeyPatch) -> None:
    original = SegmentSweeper._references

    async def references(self, repo):
        return replace(await original(self, repo), segments=frozenset())

    patch.setattr(SegmentSweeper, "_references", references)


def slots_that_keep_no_files(patch: pytest.MonkeyPatch) -> None:
    """Sweep what a job has stored and not installed, though it holds its slot."""
    patch.setattr(segments, "protects", lambda branch, token: token > branch.last_token)


def pins_that_keep_nothing(patch: pytest.MonkeyPatch) -> None:
    async def oldest_pin(*_args: object) -> None:
        return None

    patch.setattr(cleaner, "oldest_pin", oldest_pin)


def shared_segments_let_go_by_one_branch(patch: pytest.MonkeyPatch) -> None:
    """Sweep a segment when the first of the branches that share it has let it go."""
    seen: dict[str, set[str]] = {}

    def is_orphan(name, *, branches, **rest):
        layers = [layer for branch in branches.values() for layer in branch.sealed]
        holders = {layer.dataset for layer in layers if getattr(layer, "id", "") == str(name)}
        known = seen.setdefault(str(name), set())
        known |= holders
        return segments.is_orphan(name, branches=branches, **rest) or (bool(holders) and holders != known)

    patch.setattr(segment_sweeper, "is_orphan", is_orphan)


def entries_put_after_the_record(patch: pytest.MonkeyPatch) -> None:
    """Let the record say that it is indexed, and put the entry when somebody gets around to it."""

    async def enter(_index, _partition, _old, new):
        return replace(new, indexed=True)

    patch.setattr(TodoIndex, "enter", enter)


def idle_records_not_swapped(patch: pytest.MonkeyPatch) -> None:
    """Look, find nothing to change in the record, and strike the entry without a swap."""
    original = Cleaner._swap

    async def swap(self, partition, new, old, item):
        if replace(new, indexed=old.indexed, updated_at=old.updated_at) == old:
            return True
        return await original(self, partition, new, old, item)

    patch.setattr(Cleaner, "_swap", swap)


def entries_struck_at_any_version(patch: pytest.MonkeyPatch) -> None:
    async def strike(self, entry):
        await self._kv.delete_rows(TODO_PARTITION, [entry.key])

    patch.setattr(TodoIndex, "strike", strike)


def tombstones_dropped_at_once(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(cleaner, "may_go", lambda record, _look, _now: isinstance(record, DeletedBranch))


@pytest.mark.parametrize(
    ("plant", "scenario", "law"),
    [
        pytest.param(without(Refusal.TOKEN), "compaction-stale", "was deleted", id="guard: token"),
        pytest.param(without(Refusal.PENDING), "compaction-commits", "a live operation", id="guard: pending"),
        pytest.param(rows_sent_again_without_sealing, "staging", "", id="sealing after an unknown outcome"),
        pytest.param(retired_layers_not_read_back, "staging", "", id="read-back in retired"),
        pytest.param(heads_that_do_not_seal, "heads", "", id="HEAD changes seal"),
        pytest.param(heads_that_keep_layers, "heads", "", id="HEAD changes drop layers"),
        pytest.param(heads_that_stay_pending, "heads", "stays pending", id="HEAD changes end"),
        pytest.param(heads_without_turns, "fair-heads", "waited too long", id="losers go first"),
        pytest.param(tries_from_nothing, "fair-heads", "a small one", id="tries go on from the last"),
        pytest.param(segments_swept_within_the_grace, "compaction-races", "", id="grace"),
        pytest.param(
            segments_swept_whoever_refers_to_them, "compaction-races", "was deleted", id="references"
        ),
        pytest.param(
            shared_segments_let_go_by_one_branch,
            "shared-segments",
            "was deleted",
            id="each branch's reference",
        ),
        pytest.param(slots_that_keep_no_files, "compaction-swept", "was deleted", id="slots keep files"),
        pytest.param(
            entries_put_after_the_record, "branches", "does not say so", id="todo: the entry comes first"
        ),
        pytest.param(
            idle_records_not_swapped,
            "branches",
            "todo index",
            id="todo: the record is swapped in any case",
        ),
        pytest.param(
            entries_struck_at_any_version,
            "idle-branches",
            "todo index",
            id="todo: struck at the version read",
        ),
        pytest.param(tombstones_dropped_at_once, "branches", "is needed", id="tombstones wait"),
        pytest.param(pins_that_keep_nothing, "pinned-scans", "was given up", id="pins"),
        pytest.param(
            tokens_that_come_back_after_a_restore, "compaction-restore", "was given out twice", id="epoch"
        ),
    ],
)
def test_what_goes_wrong_without_a_safeguard_is_found(
    plant: Plant, scenario: str, law: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)

    assert found_at(scenario, range(SEEDS), law=law) is not None


@pytest.mark.parametrize(
    ("before", "gone", "part", "scenario"),
    [
        pytest.param(slots_kept_by_heads, (), Refusal.SOURCES, "compaction-resets", id="sources"),
        pytest.param(
            nothing, (Refusal.SOURCES,), Refusal.INCARNATION, "compaction-namesakes", id="incarnation"
        ),
        pytest.param(
            pending_operations_ignored, (Refusal.TOKEN,), Refusal.BASE, "compaction-heads", id="base"
        ),
        pytest.param(
            nothing,
            (Refusal.TOKEN, Refusal.SOURCES),
            Refusal.COMPACTED,
            "compaction-trees",
            id="compacted",
        ),
    ],
)
def test_a_part_of_the_guard_stands_behind_other_safeguards(
    *,
    before: Plant,
    gone: tuple[Refusal, ...],
    part: Refusal,
    scenario: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    together(before, without(*gone))(monkeypatch)
    assert found_at(scenario, range(SEEDS_IN_PLACE)) is None

    without(*gone, part)(monkeypatch)
    assert found_at(scenario, range(SEEDS), law=HIDDEN) is not None
