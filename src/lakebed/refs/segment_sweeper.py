"""Segments that nobody refers to, and nobody ever can. Order matters.

    1. list    the files of the repository
    2. look    whether any may be an orphan; mostly none, and nothing more happens
    3. raise   `min_era` on every live branch: from here no branch takes a writer's segment of an older era
    4. read    what is referenced: stashes in every state, then layers of every branch, live or retired
    5. delete  what is not, as `is_orphan` says

3 before 4: a segment appended in between would be deleted under its readers. A branch that is created after 1 takes only
segments that were stored after it was created, so none that 1 has listed. 1 before 4: the output of a job is listed,
then installed, then seen in 4, or its token no longer protects it. Stashes before branches: a stash moves to a branch
and nothing moves back, so that one which is popped between the two reads is seen in the first, however long that takes.
Crash anywhere: nothing is half done.

What keeps the segment of a stash, at each step of `versioning/stash.py`:

    stored, no record yet            its era, and after that nothing: a sweeper may delete it
    a tentative record               the record, if it was there before 4. If it came later, the branch's `min_era` was raised
                                     before, and the swap by which the stash would count is refused: write another
    the branch names it, standing    the record, for days, however old the era
    popping, and appended late       the record: it is popping until the branch has the layer or cannot get it any more. So
                                     a pop asks for no era, only that the record says so still
    popped                           the branch; and the record, for a grace
    dropped                          the record, for a grace if a user dropped it; one that never counted needs nothing

An era is an hour, and the last one is spared too, so that a slow upload does not come too late for nothing.
"""

from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

from lakebed.env.clock import Clock, Instant
from lakebed.env.ids import IdSource
from lakebed.errors import ConflictError, ErrorKind, InvalidInputError
from lakebed.format.records import decode_branch, decode_stash
from lakebed.kv.port import KVStore
from lakebed.limits import SWAP_ATTEMPTS_MAX
from lakebed.model.branch import Branch
from lakebed.model.ids import BranchName, Nonce
from lakebed.model.layers import Layer, SegmentLayer
from lakebed.model.repository import Repository
from lakebed.model.segments import (
    SEGMENTS_FOLDER,
    SegmentName,
    era_at,
    is_orphan,
    parse_segment_key,
    segment_key,
)
from lakebed.refs.backoff import back_off
from lakebed.refs.branches import later, swapped_once
from lakebed.refs.keys import BRANCHES_PREFIX, STASHES_PREFIX, branch_key
from lakebed.refs.owners import OpenStore, require_owned
from lakebed.refs.scans import scan_records
from lakebed.refs.versioned import Versioned


@dataclass(frozen=True, slots=True)
class _References:
    """What the records of a repository refer to, and its live branches."""

    segments: AbstractSet[str]
    branches: dict[Nonce, Branch]

    def orphans(self, names: list[SegmentName], *, min_era: int) -> list[SegmentName]:
        return [
            name
            for name in names
            if is_orphan(name, referenced=self.segments, branches=self.branches, min_era=min_era)
        ]


class SegmentSweeper:
    """Deletes orphaned segments. Any number may run."""

    def __init__(self, kv: KVStore, *, open_store: OpenStore, clock: Clock, ids: IdSource) -> None:
        self._kv = kv
        self._open_store = open_store
        self._clock = clock
        self._ids = ids

    async def sweep(self, repo: Repository, now: Instant) -> int:
        """Delete the orphans of a repository; return how many. None while an adopted one keeps what the old owner left.

        Raises:
            FencedError: `REPO_TAKEN_OVER`: another installation owns the namespace.
        """
        if now < repo.gc_not_before or repo.taken_over_by:
            return 0
        min_era = era_at(now) - 1
        store = await self._open_store(repo.namespace)
        names: list[SegmentName] = []
        async for infos in store.list(SEGMENTS_FOLDER):
            for info in infos:
                try:
                    names.append(parse_segment_key(info.key))
                except InvalidInputError:
                    # Not ours to delete.
                    continue
        suspects = (await self._references(repo)).orphans(names, min_era=min_era) if names else []
        if not suspects:
            return 0
        async for items in scan_records(self._kv, repo.partition, BRANCHES_PREFIX):
            for item in items:
                record = decode_branch(item.value)
                if isinstance(record, Branch):
                    await self._raise(repo, record.name, min_era)
        orphans = (await self._references(repo)).orphans(suspects, min_era=min_era)
        if orphans:
            # Listed before this check: what a later owner of the namespace has stored is not among them.
            await require_owned(store, repo)
            await store.delete([segment_key(str(name)) for name in orphans])
        return len(orphans)

    async def _references(self, repo: Repository) -> _References:
        layers: list[Layer] = []
        async for items in scan_records(self._kv, repo.partition, STASHES_PREFIX):
            layers += [layer for item in items for layer in decode_stash(item.value).layers]
        branches: dict[Nonce, Branch] = {}
        async for items in scan_records(self._kv, repo.partition, BRANCHES_PREFIX):
            for item in items:
                record = decode_branch(item.value)
                layers += [retired.layer for retired in record.retired]
                if isinstance(record, Branch):
                    layers += record.sealed
                    branches[record.incarnation] = record
        return _References({layer.id for layer in layers if isinstance(layer, SegmentLayer)}, branches)

    async def _raise(self, repo: Repository, name: BranchName, min_era: int) -> None:
        for attempt in range(SWAP_ATTEMPTS_MAX):
            item = await self._kv.get(repo.partition, branch_key(name))
            if item is None:
                return
            record = decode_branch(item.value)
            if record.min_era >= min_era:
                return
            now = later(record.updated_at, await self._kv.now())
            raised = replace(record, min_era=min_era, updated_at=now)
            if await swapped_once(self._kv, repo.partition, raised, Versioned(record, item.version)):
                return
            await back_off(attempt, clock=self._clock, ids=self._ids)
        raise ConflictError(ErrorKind.TOO_MANY_RETRIES, f"branch {name!r} is changed by too many at once")
