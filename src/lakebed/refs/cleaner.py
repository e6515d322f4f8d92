"""The cleaner: what deleted repositories, deleted branches and retired layers leave behind. Order matters.

Any number of cleaners may run, and each step can be done again. Nothing here is
needed for anything else to work; it only gives space back.

A repository's entry, when due, and only if no record names its uid any more:
    1. bury  every branch of its partition   from here no row can be staged: the fences are lost
    2. drop  the partitions of all staging tokens those records and the stashes name
    3. free  the namespace, if the data was to be deleted too: `deleted_data` has the order. Then the marker goes, and a
             late entry stays for what is uploaded until a day later. Where nothing lies any more, what the store made goes too
    4. drop  the repository's partitions
    5. remove the entry                      crash before: everything above is done again
2 before 4: only the branch records say which tokens there were.

A branch that the `todo` index names (`todo.py` has the order of its entry), when due:
    1. write a clean-up entry for each token that leaves   crash: the entry alone does the rest
    2. swap  out of the record what is over                crash: the same; not while a stash that is popping may ask for it
    3. remove the record, if it is a tombstone with nothing left, a grace old, and no stash is popping into it
1 before 2: afterwards only the entry knows of the token. Segments and trees have no partition: they stay
listed for the whole grace, which protects their files, and then just leave the list. `segment_sweeper` deletes segments.

A token's entry, when due:
    1. look  whether its branch names it as staging or sealed, a stash keeps it, or a pin was made before it was retired
    2. drop  the token's partition
    3. remove the entry                                    crash before: all of it again
Stashes are read before branches in 1: a stash moves to a branch and nothing moves back.

`round` does what is due, and reads nothing else. `visit` looks at everything in one repository that no index
leads to: a creation or deletion whose process died, and, if asked, all refs: branches that lack their entry, and tombstones of
an older lakebed.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace

from lakebed.env.clock import Clock, Instant, after
from lakebed.env.ids import IdSource
from lakebed.errors import ConflictError, ErrorKind, NotFoundError
from lakebed.format.records import (
    decode_branch,
    decode_cleanup,
    decode_stash,
    decode_tag,
    decode_todo,
    encode_cleanup,
)
from lakebed.format.rows import OPEN_KEY
from lakebed.kv.port import Expect, Item, KVStore
from lakebed.limits import (
    GRACE_SECONDS,
    LATE_UPLOAD_SECONDS,
    MAINTENANCE_PAGE_ITEMS,
    MAINTENANCE_REST_SECONDS,
    MAINTENANCE_REST_SECONDS_MAX,
    MAINTENANCE_STEP_SECONDS,
    SWAP_ATTEMPTS_MAX,
)
from lakebed.model.branch import Branch, BranchRecord
from lakebed.model.commits import DeletedTag
from lakebed.model.ids import BranchName, RepoName, RepoUid, StagingToken, TagName
from lakebed.model.layers import TokenLayer
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
from lakebed.refs.attention import Look, drained, due_at, may_go, needs_attention, tokens_among
from lakebed.refs.backoff import back_off
from lakebed.refs.branches import Branches, bury, later, swapped_once
from lakebed.refs.deleted_data import free_data, free_late_data
from lakebed.refs.keys import (
    BRANCHES_PREFIX,
    CLEANUP_PARTITION,
    REPOSITORIES_PARTITION,
    STASHES_PREFIX,
    TAGS_PREFIX,
    TODO_PARTITION,
    branch_key,
    compaction_partition,
    due_before,
    due_of,
    repo_key,
    repository_cleanup_key,
    todo_branch,
    token_cleanup_key,
)
from lakebed.refs.leftovers import remove_traces
from lakebed.refs.outermost import logged
from lakebed.refs.owners import OpenStore, deleting_key, marker_key
from lakebed.refs.pins import oldest_pin
from lakebed.refs.repositories import Repositories, is_stale
from lakebed.refs.scans import scan_records
from lakebed.refs.segment_sweeper import SegmentSweeper
from lakebed.refs.settle import settled_swap
from lakebed.refs.tags import Tags
from lakebed.refs.todo import TodoIndex
from lakebed.refs.versioned import Versioned
from lakebed.telemetry.log import get_logger

log = get_logger(__name__)


@dataclass(slots=True)
class Cleaned:
    """What one run did. What `failed` stays for the next run."""

    given_up: int = 0
    repositories: int = 0
    branches: int = 0
    """Tombstones that went."""
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
        self._branches = Branches(kv, clock=clock, ids=ids)
        self._tags = Tags(kv, clock=clock, ids=ids)
        self._todo = TodoIndex(kv, clock=clock, ids=ids)
        self._sweeper = SegmentSweeper(kv, open_store=open_store, clock=clock, ids=ids)
        self._swept: set[RepoUid] = set()
        """Repositories whose segments were swept in `_swept_era`."""
        self._swept_era = -1
        self._rests = _Rests(clock)

    async def clean_once(self, now: Instant | None = None) -> Cleaned:
        """Look at everything, and do what is due at `now` (engine time, if not given)."""
        now = await self._kv.now() if now is None else now
        done = Cleaned()
        found = [each async for each in self._repositories.scan()]
        for each in found:
            await self.visit(each, now, done, full=True)
        await self.round(now, done)
        for each in found:
            if isinstance(each.value, Repository):
                async with self._noted(done, f"segments of {each.value.name}"):
                    done.segments += await self.sweep_segments(each.value, now)
        return done

    async def round(
        self, now: Instant, done: Cleaned | None = None, *, seconds: float | None = None
    ) -> Cleaned:
        """Do what the `todo` index and the clean-up entries say is due; begin nothing more after `seconds`."""
        done = Cleaned() if done is None else done
        ends = None if seconds is None else self._clock.monotonic() + seconds
        async for page in self._kv.scan(TODO_PARTITION, page_items_max=MAINTENANCE_PAGE_ITEMS):
            due: dict[str, list[Item]] = {}
            for entry in page.items():
                if decode_todo(entry.value).due <= now:
                    due.setdefault(todo_branch(entry.key)[0], []).append(entry)
            for partition, entries in due.items():
                async with self._noted(done, partition):
                    await self._attend(partition, entries, now, done)
                if self._is_over(ends):
                    return done
        looks = _Looks(self._kv, now, self._grace_seconds)
        async for page in self._kv.scan(
            CLEANUP_PARTITION, end=due_before(now), page_items_max=MAINTENANCE_PAGE_ITEMS
        ):
            for key, value in zip(page.keys, page.values, strict=True):
                if ends is not None and self._rests.is_resting(key):
                    continue
                failed = done.failed
                async with self._noted(done, key.decode()):
                    await self._work_off(key, value, done, looks)
                self._rests.note(key, failed=done.failed > failed)
                if self._is_over(ends):
                    return done
        return done

    async def visit(
        self, found: Versioned[RepositoryRecord], now: Instant, done: Cleaned, *, full: bool = False
    ) -> None:
        """Look at one repository for what no index leads to; `full` looks at every ref."""
        async with self._noted(done, found.value.name):
            match found.value:
                case Repository() as repo if full:
                    await self._visit_refs(repo)
                case CreatingRepository() as claim:
                    if is_stale(claim, now):
                        await self._repositories.give_up(Versioned(claim, found.version))
                        done.given_up += 1
                case DeletingRepository() as deleting:
                    await self._repositories.finish_deleting(Versioned(deleting, found.version))
                case GoneRepository(name=name):
                    with suppress(ConflictError):
                        await self._kv.remove(REPOSITORIES_PARTITION, repo_key(name), expected=found.version)
                case _:
                    pass

    async def _attend(self, partition: str, entries: list[Item], now: Instant, done: Cleaned) -> None:
        """Do what is due on branches of one repository; their entries were read before this."""
        names = [todo_branch(entry.key)[1] for entry in entries]
        items = await self._kv.get_many([(partition, branch_key(name)) for name in names])
        look = await _Looks(self._kv, now, self._grace_seconds).at(partition)
        attention = _Attention(partition=partition, look=look, now=now)
        for entry, item in zip(entries, items, strict=True):
            async with self._noted(done, entry.key.decode()):
                done.branches += await self._attend_one(attention, entry, item)

    async def _attend_one(self, to: "_Attention", entry: Item, item: Item | None) -> bool:
        """Return whether the branch's record went."""
        if item is None:
            await self._todo.strike(entry)
            return False
        record = decode_branch(item.value)
        if isinstance(record, Branch) and record.tentative:
            # What finishing it leaves to do, the next round sees.
            await self._finish(to.partition, record.name)
            return False
        if may_go(record, to.look, to.now):
            try:
                await self._kv.remove(to.partition, item.key, expected=item.version)
            except ConflictError:
                return False
            await self._todo.strike(entry)
            return True
        left, _ = await self._hand_over(record, to.partition, to.look, to.now)
        if not needs_attention(left):
            idle = replace(left, indexed=False, updated_at=later(record.updated_at, to.now))
            if await self._swap(to.partition, idle, record, item):
                await self._todo.strike(entry)
            return False
        is_written = left is record or await self._swap(to.partition, left, record, item)
        if is_written and due_at(left, self._grace_seconds) > to.now:
            await self._todo.put_off(entry, due_at(left, self._grace_seconds))
        return False

    async def _swap(self, partition: str, new: BranchRecord, old: BranchRecord, item: Item) -> bool:
        return await swapped_once(self._kv, partition, new, Versioned(old, item.version))

    async def _finish(self, partition: str, name: BranchName) -> None:
        """Let a tentative branch become visible, or go, unless its repository is gone."""
        repo_name, _, uid = partition.rpartition("-")
        found = await self._repositories.find(RepoName(repo_name))
        if found is not None and isinstance(found.value, Repository) and found.value.uid == uid:
            with suppress(NotFoundError):
                await self._branches.get(found.value, name)

    async def _hand_over(
        self, record: BranchRecord, partition: str, look: Look, now: Instant
    ) -> tuple[BranchRecord, dict[bytes, TokenCleanup]]:
        """Write clean-up entries for the tokens that leave a record; return it without them, to be swapped in, and those."""
        left, leaving = drained(record, look, now)
        entries: dict[bytes, TokenCleanup] = {}
        for retired in leaving:
            if isinstance(retired.layer, TokenLayer):
                token = retired.layer.token
                key = token_cleanup_key(after(retired.at, self._grace_seconds), token)
                entries[key] = TokenCleanup(
                    token=token, partition=partition, branch=record.name, retired_at=retired.at
                )
                await self._note(key, entries[key])
        if left is not record:
            left = replace(left, updated_at=later(record.updated_at, now))
        return left, entries

    async def _visit_refs(self, repo: Repository) -> None:
        """Enter branches that lack their entry into the `todo` index, and remove tombstones of tags."""
        async for items in scan_records(
            self._kv, repo.partition, BRANCHES_PREFIX, page_items_max=MAINTENANCE_PAGE_ITEMS
        ):
            records = [decode_branch(item.value) for item in items]
            names = [record.name for record in records if needs_attention(record)]
            if names:
                await self._todo.enter_missing(repo.partition, names)
        async for items in scan_records(
            self._kv, repo.partition, TAGS_PREFIX, page_items_max=MAINTENANCE_PAGE_ITEMS
        ):
            for item in items:
                tag = decode_tag(item.value)
                if isinstance(tag, DeletedTag):
                    with suppress(ConflictError):
                        await self._kv.remove(repo.partition, item.key, expected=item.version)
                elif tag.tentative:
                    with suppress(NotFoundError):
                        await self._tags.get(repo, TagName(tag.name))

    async def sweep_segments(self, repo: Repository, now: Instant | None = None) -> int:
        """Delete orphaned segments, once in an era: those of writers become orphans when the next begins. Return how many."""
        now = await self._kv.now() if now is None else now
        if self._swept_era != era_at(now):
            self._swept_era, self._swept = era_at(now), set()
        if repo.uid in self._swept:
            return 0
        swept = await self._sweeper.sweep(repo, now)
        self._swept.add(repo.uid)
        return swept

    async def _work_off(self, key: bytes, value: bytes, done: Cleaned, looks: "_Looks") -> None:
        entry = decode_cleanup(value)
        if isinstance(entry, CleanupEntry) and entry.marked_at is not None:
            await self._free_late_data(key, entry, entry.marked_at)
        elif isinstance(entry, CleanupEntry):
            done.repositories += await self._clean_repository(key, entry)
        else:
            done.tokens += await self._drop_token(key, entry, looks)

    def _is_over(self, ends: float | None) -> bool:
        return ends is not None and self._clock.monotonic() > ends

    @asynccontextmanager
    async def _noted(self, done: Cleaned, what: str) -> AsyncIterator[None]:
        """Let one thing that cannot be cleaned now hold up no other."""
        async with logged("cleanup_failed", what=what) as outcome, asyncio.timeout(MAINTENANCE_STEP_SECONDS):
            yield
        done.failed += outcome.failed

    async def _drop_token(self, key: bytes, entry: TokenCleanup, looks: "_Looks") -> bool:
        look = await looks.at(entry.partition)
        if entry.token in look.kept_tokens():
            return False
        for name in sorted({entry.branch, *look.targets_of(entry.token)}):
            if entry.token in await looks.live_tokens(entry.partition, name):
                return False
        retired_at = entry.retired_at if entry.retired_at is not None else after(due_of(key), -GRACE_SECONDS)
        if look.pinned is not None and retired_at >= look.pinned:
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
            tokens |= tokens_among(layer for item in items for layer in decode_stash(item.value).layers)
        for token in sorted(tokens):
            await self._kv.drop(token, first=[OPEN_KEY])
        store = await self._open_store(entry.namespace)
        late_key = repository_cleanup_key(after(due_of(key), LATE_UPLOAD_SECONDS), entry.uid)
        leaving = [marker_key(entry.uid), deleting_key(entry.uid)]
        if entry.delete_data and await self._kv.get(CLEANUP_PARTITION, late_key) is not None:
            await store.delete(leaving[:1])
        elif entry.delete_data and (marked_at := await free_data(store, entry.uid)) is not None:
            await self._note(late_key, replace(entry, marked_at=marked_at))
            await store.delete(leaving[:1])
        else:
            await store.delete(leaving)
            if not await remove_traces(store):
                return False
        await self._kv.drop(compaction_partition(entry.partition))
        await self._kv.drop(entry.partition)
        await self._kv.delete_rows(CLEANUP_PARTITION, [key])
        return True

    async def _free_late_data(self, key: bytes, entry: CleanupEntry, marked_at: Instant) -> None:
        store = await self._open_store(entry.namespace)
        if not await free_late_data(store, entry.uid, marked_at):
            put_off = repository_cleanup_key(after(due_of(key), LATE_UPLOAD_SECONDS), entry.uid)
            await self._note(put_off, entry)
        await self._kv.delete_rows(CLEANUP_PARTITION, [key])

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
                return tokens_among(retired.layer for retired in tombstone.retired)
            await back_off(attempt, clock=self._clock, ids=self._ids)
        raise ConflictError(ErrorKind.TOO_MANY_RETRIES, f"branch {name!r} is changed by too many at once")

    async def _note(self, key: bytes, entry: CleanupEntry | TokenCleanup) -> None:
        await settled_swap(
            self._kv,
            CLEANUP_PARTITION,
            key,
            encode_cleanup(entry),
            expected=Expect.ANY,
            clock=self._clock,
            ids=self._ids,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Attention:
    """What decides on the branches of one repository, in one round."""

    partition: str
    look: Look
    now: Instant


class _Rests:
    """Clean-up entries that failed, and until when each is left alone."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._until: dict[bytes, tuple[float, float]] = {}

    def is_resting(self, key: bytes) -> bool:
        return key in self._until and self._clock.monotonic() < self._until[key][0]

    def note(self, key: bytes, *, failed: bool) -> None:
        _, before = self._until.pop(key, (0.0, MAINTENANCE_REST_SECONDS / 2))
        if failed:
            seconds = min(2 * before, MAINTENANCE_REST_SECONDS_MAX)
            self._until[key] = (self._clock.monotonic() + seconds, seconds)


class _Looks:
    """What one run has read of each repository, once: stashes and pins, then branches."""

    def __init__(self, kv: KVStore, now: Instant, grace_seconds: float) -> None:
        self._kv = kv
        self._now = now
        self._grace_seconds = grace_seconds
        self._looks: dict[str, Look] = {}
        self._tokens: dict[tuple[str, BranchName], frozenset[StagingToken]] = {}

    async def at(self, partition: str) -> Look:
        """Return the stashes and pins of a repository."""
        if partition not in self._looks:
            stashes = [
                decode_stash(item.value)
                async for items in scan_records(self._kv, partition, STASHES_PREFIX)
                for item in items
            ]
            pinned = await oldest_pin(self._kv, partition, self._now)
            self._looks[partition] = Look(
                stashes=tuple(stashes), pinned=pinned, grace_seconds=self._grace_seconds
            )
        return self._looks[partition]

    async def live_tokens(self, partition: str, name: BranchName) -> frozenset[StagingToken]:
        """Return the tokens that a branch names as staging or sealed. Ask `at` before."""
        assert partition in self._looks, "stashes before branches"
        if (partition, name) not in self._tokens:
            item = await self._kv.get(partition, branch_key(name))
            record = decode_branch(item.value) if item is not None else None
            tokens: frozenset[StagingToken] = frozenset()
            if isinstance(record, Branch):
                tokens = tokens_among(record.sealed)
                if record.staging_token is not None:
                    tokens |= {record.staging_token}
            self._tokens[partition, name] = tokens
        return self._tokens[partition, name]
