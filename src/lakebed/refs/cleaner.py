"""The cleaner: what deleted repositories and retired layers leave behind. Order matters.

Any number of cleaners may run, and each step can be done again. Nothing here is
needed for anything else to work; it only gives space back.

A repository's entry, when due, and only if no record names its uid any more:
    1. bury  every branch of its partition   from here no row can be staged: the fences are lost
    2. drop  the partitions of all staging tokens those records and the stashes name
    3. remove the namespace's data, if asked and while this repository owns it, then the marker. Before the first object
             goes, `deleting-<uid>` says so, and the owners are listed after that: an adopter looks in the other order
    4. drop  the repository's partitions
    5. remove the entry                      crash before: everything above is done again
2 before 4: only the branch records say which tokens there were. The marker is asked for after each page of a listing:
without it the namespace may be somebody else's by now, and with it everything that was listed was this repository's.

A layer that was retired for longer than a grace period (or sooner, if the record lists too many):
    1. write a clean-up entry for its token  crash: the entry alone does the rest
    2. swap  it out of `retired`             crash: the same; not while a stash that is popping may ask for it
    3. drop  the token's partition when its grace is over, if no record names it as staging or sealed, no stash keeps it,
             and no live pin was made before it was retired
    4. remove the entry
1 before 2: afterwards only the entry knows of the token. Segments and trees have no partition: they stay
listed for the whole grace, which protects their files, and then just leave the list. `segment_sweeper` deletes segments.
"""

from collections.abc import AsyncIterator, Iterable
from collections.abc import Set as AbstractSet
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

from lakebed.env.clock import Clock, Instant, after
from lakebed.env.ids import IdSource
from lakebed.errors import ConflictError, ErrorKind, LakebedError
from lakebed.format.records import (
    decode_branch,
    decode_cleanup,
    decode_stash,
    encode_cleanup,
)
from lakebed.format.rows import OPEN_KEY
from lakebed.kv.port import Expect, KVStore
from lakebed.limits import GRACE_SECONDS, RETIRED_LISTED, SWAP_ATTEMPTS_MAX
from lakebed.model.branch import Branch
from lakebed.model.ids import BranchName, RepoUid, StagingToken
from lakebed.model.layers import Layer, TokenLayer, layer_name
from lakebed.model.lifetimes import Lifetimes
from lakebed.model.repository import (
    CleanupEntry,
    CreatingRepository,
    DeletingRepository,
    GoneRepository,
    Repository,
    RepositoryRecord,
    TokenCleanup,
)
from lakebed.model.segments import era_at
from lakebed.model.stash import StashState
from lakebed.refs.backoff import back_off
from lakebed.refs.branches import bury, later, swapped_once
from lakebed.refs.keys import (
    BRANCHES_PREFIX,
    CLEANUP_PARTITION,
    STASHES_PREFIX,
    branch_key,
    compaction_partition,
    due_before,
    due_of,
    token_cleanup_key,
)
from lakebed.refs.leftovers import DATA_PREFIXES
from lakebed.refs.owners import OpenStore, deleting_key, is_owner, marker_key, put_deleting
from lakebed.refs.pins import oldest_pin
from lakebed.refs.repositories import Repositories, is_stale
from lakebed.refs.scans import scan_records
from lakebed.refs.segment_sweeper import SegmentSweeper
from lakebed.refs.settle import settled_swap
from lakebed.refs.versioned import Versioned
from lakebed.telemetry.log import get_logger

log = get_logger(__name__)


@dataclass(slots=True)
class Cleaned:
    """What one run did. What `failed` stays for the next run."""

    given_up: int = 0
    repositories: int = 0
    tokens: int = 0
    segments: int = 0
    failed: int = 0


class Cleaner:
    """Works off everything that is due."""

    def __init__(
        self,
        kv: KVStore,
        repositories: Repositories,
        *,
        open_store: OpenStore,
        clock: Clock,
        ids: IdSource,
        lifetimes: Lifetimes = Lifetimes(),  # noqa: B008  a frozen value
    ) -> None:
        self._kv = kv
        self._repositories = repositories
        self._open_store = open_store
        self._clock = clock
        self._ids = ids
        self._grace_seconds = lifetimes.grace_seconds
        self._sweeper = SegmentSweeper(kv, open_store=open_store, clock=clock, ids=ids)
        self._swept: dict[RepoUid, int] = {}

    async def run(self, *, interval_seconds: float) -> None:
        """Clean for ever, with a pause between two runs."""
        while True:
            try:
                await self.clean_once()
            except LakebedError as error:
                log.warning("cleaner_failed", kind=error.kind, error=str(error))
            await self._clock.sleep(interval_seconds * self._ids.jitter())

    async def clean_once(self, now: Instant | None = None) -> Cleaned:
        """Do everything that is due at `now` (engine time, if not given)."""
        now = await self._kv.now() if now is None else now
        done = Cleaned()
        async for found in self._repositories.scan():
            async with self._noted(done, found.value.name):
                await self._visit(found, now, done)
        in_use: dict[str, frozenset[StagingToken]] = {}
        async for page in self._kv.scan(CLEANUP_PARTITION, end=due_before(now)):
            for key, value in zip(page.keys, page.values, strict=True):
                async with self._noted(done, key.decode()):
                    await self._work_off(key, value, done, in_use)
        return done

    async def drain_retired(self, repo: Repository, name: BranchName, *, now: Instant | None = None) -> int:
        """Free the layers that left a branch longer than a grace ago; return how many tokens were dropped."""
        now = await self._kv.now() if now is None else now
        taken = await self._take_out(repo.partition, name, now)
        entries = {key: entry for key, entry in taken.items() if key < due_before(now)}
        in_use = await self._tokens_in_use(repo.partition) if entries else frozenset()
        dropped = [await self._drop_token(key, entry, in_use) for key, entry in entries.items()]
        return sum(dropped)

    async def _take_out(self, partition: str, name: BranchName, now: Instant) -> dict[bytes, TokenCleanup]:
        """Hand layers of a branch's `retired` over to clean-up entries, and return those.

        That is all whose time has come, and those beyond what the record may list: their entries are
        due when their time comes.
        """
        entries: dict[bytes, TokenCleanup] = {}
        for attempt in range(SWAP_ATTEMPTS_MAX):
            item = await self._kv.get(partition, branch_key(name))
            if item is None:
                return entries
            record = decode_branch(item.value)
            tokens = [r for r in record.retired if isinstance(r.layer, TokenLayer)]
            surplus = tokens[:-RETIRED_LISTED]
            pinned = None
            if record.retired or record.retired_trees:
                pinned = await oldest_pin(self._kv, partition, now)
            due = [r for r in record.retired if self._is_over(r.at, now, pinned)]
            old = [r for r in record.retired if r in surplus or r in due]
            trees = tuple(r for r in record.retired_trees if not self._is_over(r.at, now, pinned))
            if old:
                # Asked after the record was read: what is retired there is popped by now, or popping still.
                popping = await self._layers_of_stashes(partition, {StashState.POPPING})
                names = set(map(layer_name, popping))
                old = [r for r in old if layer_name(r.layer) not in names]
            if not old and trees == record.retired_trees:
                return entries
            for retired in old:
                if isinstance(retired.layer, TokenLayer):
                    token = retired.layer.token
                    key = token_cleanup_key(after(retired.at, self._grace_seconds), token)
                    entries[key] = TokenCleanup(
                        token=token, partition=partition, branch=name, retired_at=retired.at
                    )
                    await self._note(key, entries[key])
            kept = tuple(retired for retired in record.retired if retired not in old)
            drained = replace(
                record, retired=kept, retired_trees=trees, updated_at=later(record.updated_at, now)
            )
            if await swapped_once(self._kv, partition, drained, Versioned(record, item.version)):
                return entries
            await back_off(attempt, clock=self._clock, ids=self._ids)
        raise ConflictError(ErrorKind.TOO_MANY_RETRIES, f"branch {name!r} is changed by too many at once")

    def _is_over(self, at: Instant, now: Instant, pinned: Instant | None) -> bool:
        """Return whether the grace of what was retired at `at` is over; what went before a pin was made, its reader has not seen."""
        return after(at, self._grace_seconds) < now and (pinned is None or at < pinned)

    async def _visit(self, found: Versioned[RepositoryRecord], now: Instant, done: Cleaned) -> None:
        match found.value:
            case Repository() as repo:
                async for items in scan_records(self._kv, repo.partition, BRANCHES_PREFIX):
                    for item in items:
                        await self._take_out(repo.partition, decode_branch(item.value).name, now)
                done.segments += await self._sweep(repo, now)
            case CreatingRepository() as claim:
                if is_stale(claim, now):
                    await self._repositories.give_up(Versioned(claim, found.version))
                    done.given_up += 1
            case DeletingRepository() as deleting:
                await self._repositories.finish_deleting(Versioned(deleting, found.version))
            case GoneRepository():
                pass

    async def _sweep(self, repo: Repository, now: Instant) -> int:
        """Delete orphaned segments, once in an era: those of writers become orphans when the next begins."""
        if self._swept.get(repo.uid) == era_at(now):
            return 0
        swept = await self._sweeper.sweep(repo, now)
        self._swept[repo.uid] = era_at(now)
        return swept

    async def _work_off(
        self, key: bytes, value: bytes, done: Cleaned, in_use: dict[str, frozenset[StagingToken]]
    ) -> None:
        entry = decode_cleanup(value)
        if isinstance(entry, CleanupEntry):
            done.repositories += await self._clean_repository(key, entry)
            return
        if entry.partition not in in_use:
            in_use[entry.partition] = await self._tokens_in_use(entry.partition)
        done.tokens += await self._drop_token(key, entry, in_use[entry.partition])

    @asynccontextmanager
    async def _noted(self, done: Cleaned, what: str) -> AsyncIterator[None]:
        """Let one thing that cannot be cleaned now hold up no other."""
        try:
            yield
        except LakebedError as error:
            done.failed += 1
            log.warning("cleanup_failed", what=what, kind=error.kind, error=str(error))

    async def _drop_token(self, key: bytes, entry: TokenCleanup, in_use: frozenset[StagingToken]) -> bool:
        if entry.token in in_use:
            return False
        pinned = await oldest_pin(self._kv, entry.partition, await self._kv.now())
        retired_at = entry.retired_at if entry.retired_at is not None else after(due_of(key), -GRACE_SECONDS)
        if pinned is not None and retired_at >= pinned:
            return False
        await self._kv.drop(entry.token, first=[OPEN_KEY])
        await self._kv.delete_rows(CLEANUP_PARTITION, [key])
        return True

    async def _clean_repository(self, key: bytes, entry: CleanupEntry) -> bool:
        found = await self._repositories.find(entry.name)
        if found is not None and not isinstance(found.value, GoneRepository) and found.value.uid == entry.uid:
            return False
        tokens: set[StagingToken] = set()
        async for items in scan_records(self._kv, entry.partition, BRANCHES_PREFIX):
            for item in items:
                tokens |= await self._bury(entry.partition, decode_branch(item.value).name)
        async for items in scan_records(self._kv, entry.partition, STASHES_PREFIX):
            tokens |= _tokens(layer for item in items for layer in decode_stash(item.value).layers)
        for token in sorted(tokens):
            await self._kv.drop(token, first=[OPEN_KEY])
        store = await self._open_store(entry.namespace)
        marker = marker_key(entry.uid)
        deleting = deleting_key(entry.uid)
        if entry.delete_data:
            await put_deleting(store, entry.uid)
            for prefix in DATA_PREFIXES:
                async for infos in store.list(prefix):
                    if not await is_owner(store, entry.uid):
                        break
                    await store.delete([info.key for info in infos if info.key not in (marker, deleting)])
        await store.delete([marker, deleting])
        await self._kv.drop(compaction_partition(entry.partition))
        await self._kv.drop(entry.partition)
        await self._kv.delete_rows(CLEANUP_PARTITION, [key])
        return True

    async def _bury(self, partition: str, name: BranchName) -> frozenset[StagingToken]:
        """Turn a branch of a deleted repository into its tombstone, and return the tokens it had."""
        for attempt in range(SWAP_ATTEMPTS_MAX):
            item = await self._kv.get(partition, branch_key(name))
            if item is None:
                return frozenset()
            record = decode_branch(item.value)
            tombstone = bury(record, await self._kv.now()) if isinstance(record, Branch) else record
            if tombstone is record or await swapped_once(
                self._kv, partition, tombstone, Versioned(record, item.version)
            ):
                return _tokens(retired.layer for retired in tombstone.retired)
            await back_off(attempt, clock=self._clock, ids=self._ids)
        raise ConflictError(ErrorKind.TOO_MANY_RETRIES, f"branch {name!r} is changed by too many at once")

    async def _tokens_in_use(self, partition: str) -> frozenset[StagingToken]:
        """Return the tokens that a record names as staging or sealed, or that an unpopped stash keeps."""
        found: set[StagingToken] = set()
        async for items in scan_records(self._kv, partition, BRANCHES_PREFIX):
            for item in items:
                record = decode_branch(item.value)
                if isinstance(record, Branch):
                    found |= _tokens(record.sealed)
                    if record.staging_token is not None:
                        found.add(record.staging_token)
        stashed = await self._layers_of_stashes(partition, set(StashState) - {StashState.POPPED})
        return frozenset(found) | _tokens(stashed)

    async def _layers_of_stashes(self, partition: str, states: AbstractSet[StashState]) -> list[Layer]:
        found: list[Layer] = []
        async for items in scan_records(self._kv, partition, STASHES_PREFIX):
            stashes = [decode_stash(item.value) for item in items]
            found += [layer for stash in stashes if stash.state in states for layer in stash.layers]
        return found

    async def _note(self, key: bytes, entry: TokenCleanup) -> None:
        await settled_swap(
            self._kv,
            CLEANUP_PARTITION,
            key,
            encode_cleanup(entry),
            expected=Expect.ANY,
            clock=self._clock,
            ids=self._ids,
        )


def _tokens(layers: Iterable[Layer]) -> frozenset[StagingToken]:
    return frozenset(layer.token for layer in layers if isinstance(layer, TokenLayer))
