"""The simulation finds bugs: each of these was planted once, and must be found again.

A law that nothing ever breaks may have stopped looking.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import BrokenExecutor
from dataclasses import replace

import pyarrow.compute as pc
import pytest

from lakebed.catalog.link_tokens import LinkTokens
from lakebed.catalog.part_uploads import PartUploads
from lakebed.compaction import fold, install, scheduler
from lakebed.env.work import ProcessWorkers
from lakebed.errors import ConflictError, ErrorKind, UnavailableError
from lakebed.format.merge import newest_wins
from lakebed.model.part_uploads import PartUploadState
from lakebed.model.segments import era_at
from lakebed.objects.open_stores import OpenStores
from lakebed.refs import branches, cleaner, segment_sweeper
from lakebed.refs.branches import Branches
from lakebed.refs.owners import deleting_key
from lakebed.refs.segment_sweeper import SegmentSweeper
from lakebed.staging import reader, record
from lakebed.staging.appending import Appender
from lakebed.testing.simulation.database import Database
from lakebed.testing.simulation.run import play
from lakebed.versioning import head

# Each is found in at least every fifth seed: see `python -m tests.simulation.shares`.
SEEDS = 30


def rows_without_a_fence(patch: pytest.MonkeyPatch) -> None:
    original = Database.set_rows
    patch.setattr(
        Database,
        "set_rows",
        lambda self, partition, rows, **options: original(self, partition, rows, fence=None, not_after=None),
    )


def finish_whatever_happened(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(record, "require_unmoved", lambda branch, nonce, *, started: None)


def lost_replies_not_recognised(patch: pytest.MonkeyPatch) -> None:
    """Take a swap without an answer for one that was lost, and do it again."""
    update, swap = Branches.update, Branches._swap

    async def update_blindly(self, repo, name, change, *, landed):
        return await update(self, repo, name, change, landed=lambda _branch: False)

    async def swap_or_lose(self, *args):
        try:
            return await swap(self, *args)
        except UnavailableError as error:
            raise ConflictError(ErrorKind.VERSION_CHANGED, "somebody else was first") from error

    patch.setattr(Branches, "update", update_blindly)
    patch.setattr(Branches, "_swap", swap_or_lose)


def no_grace(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        cleaner.Cleaner,
        "_grace_seconds",
        property(lambda _self: 0.0, lambda _self, _value: None),
        raising=False,
    )


def counters_forgotten_with_the_branch(patch: pytest.MonkeyPatch) -> None:
    original = branches.bury
    patch.setattr(
        branches,
        "_KIND",
        replace(branches._KIND, buried=lambda branch, now: replace(original(branch, now), next_seq=1)),
    )


def dropped_layers_read_as_empty(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(reader, "names_layer", lambda branch, layer: True)


def merge_into_a_dirty_branch(patch: pytest.MonkeyPatch) -> None:
    async def clean(*_args: object) -> bool:
        return True

    patch.setattr(head, "is_clean", clean)


def conditions_decided_on_another_record(patch: pytest.MonkeyPatch) -> None:
    original = Appender.append

    async def append(self, repo, branch, changes, *, exactly=False):
        return await original(self, repo, branch, changes)

    patch.setattr(Appender, "append", append)


def older_rows_before_newer_segments(patch: pytest.MonkeyPatch) -> None:
    original = reader.LayerReader._lookup

    async def lookup(self, repo, branch, path):
        found = await self._find_row(repo, branch, record.tokens_of(branch), path)
        return found if found is not None else await original(self, repo, branch, path)

    patch.setattr(reader.LayerReader, "_lookup", lookup)


def segments_swept_without_a_look_at_branches(patch: pytest.MonkeyPatch) -> None:
    async def references(self, repo):
        return segment_sweeper._References(frozenset(), {})

    patch.setattr(SegmentSweeper, "_references", references)


def eras_not_raised_before_a_sweep(patch: pytest.MonkeyPatch) -> None:
    async def leave(self, repo, name, min_era):
        return None

    patch.setattr(SegmentSweeper, "_raise", leave)
    # A segment waits for hours before it is swept; here for no time, or the bug would need a pause of hours.
    patch.setattr(segment_sweeper, "era_at", lambda now: era_at(now) + 2)
    patch.setattr(cleaner, "era_at", lambda now: now)


def tombstones_dropped_in_folds(patch: pytest.MonkeyPatch) -> None:
    def merged(runs):
        block = newest_wins(runs)
        return block.filter(pc.invert(block.column("deleted")))

    patch.setattr(fold, "newest_wins", merged)


def compacted_trees_left_behind_by_a_new_head(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(record, "_without_tree", lambda branch, now: branch)


def installs_without_a_guard(patch: pytest.MonkeyPatch) -> None:
    original = install.place_of

    def place(branch, spec):
        found = original(branch, spec)
        return found if found is not None else max(0, len(branch.sealed) - len(spec.sources))

    patch.setattr(install, "install_refusal", lambda *args, **facts: None)
    patch.setattr(install, "place_of", place)


def links_staged_before_they_are_claimed(patch: pytest.MonkeyPatch) -> None:
    """Stage first and note it second, as if the note always arrived."""
    claim = LinkTokens._claim

    async def redeem(self, repo, name, found, entry, *, now, condition=None):
        if found.token.used_at is not None:
            return await self._repeated(repo, name, found, entry, now=now)
        await self._engine.parts.staging.write(repo, name, [entry], condition=condition)
        await claim(self, repo, found, self._engine.parts.ids.token(), now=now)
        return entry

    patch.setattr(LinkTokens, "redeem", redeem)


def uploads_staged_without_a_claim(patch: pytest.MonkeyPatch) -> None:
    swapped = PartUploads._swapped

    async def leave(self, found, **changes):
        if changes["state"] is PartUploadState.STAGING:
            return found
        return await swapped(self, found, **changes)

    patch.setattr(PartUploads, "_swapped", leave)


def only_older_halves_tried(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(scheduler._Draft, "_suspect", lambda _self, _done: None)


def broken_pools_kept(patch: pytest.MonkeyPatch) -> None:
    """A pool of helper processes that broke is used for ever."""

    async def run(self, function, /, *args, **kwargs):
        self._pool = self._pool or self._open_pool(self._processes)
        try:
            return await asyncio.wrap_future(self._pool.submit(function, *args, **kwargs))
        except BrokenExecutor as error:
            raise self._died(str(error)) from error

    patch.setattr(ProcessWorkers, "run", run)


def stores_closed_under_their_calls(patch: pytest.MonkeyPatch) -> None:
    """Close the store that was used last whenever another one is needed, whoever still uses it."""

    def make_room(self):
        for opened in list(self.leases.values()):
            self._close(opened)
        return tuple(self._closing.values())

    patch.setattr(OpenStores, "_make_room", make_room)


def late_uploads_left(patch: pytest.MonkeyPatch) -> None:
    """Take a namespace that was freed once for empty."""

    async def look_away(store, uid, _marked_at):
        await store.delete([deleting_key(uid)])
        return True

    patch.setattr(cleaner, "free_late_data", look_away)


@pytest.mark.parametrize(
    ("plant", "scenario"),
    [
        (rows_without_a_fence, "staging"),
        (finish_whatever_happened, "heads"),
        (lost_replies_not_recognised, "segments"),
        (no_grace, "staging"),
        (counters_forgotten_with_the_branch, "branches"),
        (dropped_layers_read_as_empty, "slow-readers"),
        (merge_into_a_dirty_branch, "heads"),
        (conditions_decided_on_another_record, "segment-conditions"),
        (older_rows_before_newer_segments, "segments"),
        (segments_swept_without_a_look_at_branches, "slow-segments"),
        (eras_not_raised_before_a_sweep, "swept-segments"),
        (tombstones_dropped_in_folds, "compaction"),
        (compacted_trees_left_behind_by_a_new_head, "compaction"),
        (installs_without_a_guard, "compaction-stale"),
        (links_staged_before_they_are_claimed, "gc-repeats"),
        (uploads_staged_without_a_claim, "gc-repeats"),
        (broken_pools_kept, "handed-in"),
        (only_older_halves_tried, "compaction-spoilt"),
        (stores_closed_under_their_calls, "repositories"),
        (late_uploads_left, "repositories"),
    ],
)
def test_a_planted_bug_is_found(
    plant: Callable[[pytest.MonkeyPatch], None], scenario: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)

    with pytest.raises(AssertionError):  # noqa: PT012  any of the seeds will do
        for seed in range(SEEDS):
            play(scenario, seed)
