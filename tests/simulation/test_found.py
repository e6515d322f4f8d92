"""What the simulation has found, each as the shortest run that shows it."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from functools import partial

import pytest

from lakebed.auth.caller import SYSTEM
from lakebed.catalog.objects import Attributes
from lakebed.catalog.part_uploads import PartUploads, UploadOf
from lakebed.env.clock import Clock, Instant, SystemClock, after
from lakebed.env.ids import SeededIds
from lakebed.errors import ErrorKind, InvalidInputError, NotFoundError, PreconditionError, UnavailableError
from lakebed.format.records import encode_commit
from lakebed.format.rows import OPEN_KEY, OPEN_VALUE, encode_row, row_key
from lakebed.kv.drivers.memory import MemoryKV
from lakebed.kv.port import Expect, Row
from lakebed.kv.wrappers.faults import AppliedLate, FaultyKV, Operation, Refused, Script, no_faults
from lakebed.limits import GRACE_SECONDS, RETIRED_LISTED
from lakebed.model.commits import Commit
from lakebed.model.entries import Entry
from lakebed.model.ids import EMPTY_TREE, BranchName, CommitId, MetarangeId, Nonce, Path, RepoName, RepoUid
from lakebed.model.layers import TokenLayer
from lakebed.model.part_uploads import PartUploadState
from lakebed.objects.drivers.memory import MemoryObjects
from lakebed.refs.cleaner import Cleaner
from lakebed.refs.keys import commit_key
from lakebed.refs.owners import marker_key
from lakebed.refs.repositories import Repositories
from lakebed.staging.conditions import IfAbsent, IfChecksum
from lakebed.staging.record import with_open_token
from lakebed.staging.writer import new_token
from lakebed.testing.lake import COMMIT, open_lake


def entry(path: str, content: str) -> Entry:
    return Entry(path=Path(path), address=f"data/{content}", checksum=content, size_bytes=1, mtime=Instant(1))


class Interrupted(MemoryKV):
    """Does something just before the n-th swap of a branch's record, which is then lost if `lose` says so."""

    def __init__(self, *, clock: Clock | None = None, fences: bool = True) -> None:
        super().__init__(clock=clock, fences=fences)
        self._countdown = 0
        self._lose = False

    def before_swap(
        self, number: int, meanwhile: Callable[[], Awaitable[object]], *, lose: bool = False
    ) -> None:
        self._countdown, self._meanwhile, self._lose = number, meanwhile, lose

    async def swap(self, partition, key, value, **options):
        if key.startswith(b"branches/") and self._countdown:
            self._countdown -= 1
            if self._countdown == 0:
                await self._meanwhile()
                if self._lose:
                    raise UnavailableError(ErrorKind.OUTCOME_UNKNOWN, "no answer")
        return await super().swap(partition, key, value, **options)


class Unanswered(MemoryKV):
    """Applies the next batch of rows without an answer, and from then on answers nothing."""

    armed = False
    silent = False

    async def set_rows(self, *args, **options) -> None:
        await super().set_rows(*args, **options)
        if self.armed:
            self.silent = True
            raise UnavailableError(ErrorKind.OUTCOME_UNKNOWN, "no answer")

    async def get(self, partition, key):
        if self.silent:
            raise UnavailableError(ErrorKind.STORE_UNAVAILABLE, "no connection")
        return await super().get(partition, key)


async def test_a_write_nobody_can_look_for_is_not_said_to_have_failed() -> None:
    kv = Unanswered()
    async with open_lake(kv) as lake:
        await lake.put("main", a="1")
        kv.armed = True

        with pytest.raises(UnavailableError) as caught:
            await lake.put("main", a="2")

        assert caught.value.kind is ErrorKind.OUTCOME_UNKNOWN
        kv.armed = kv.silent = False
        assert await lake.show("main") == {"a": "2"}


async def test_a_hard_reset_that_was_lost_is_not_said_to_have_happened() -> None:
    kv = Interrupted()
    async with open_lake(kv) as lake:
        first = await lake.commit("main", a="1")
        await lake.commit("main", a="2")

        # The swap that would move HEAD is lost, and somebody commits on top of what is there.
        kv.before_swap(2, lambda: lake.commit("main", b="1"), lose=True)
        with pytest.raises(UnavailableError) as caught:
            await lake.engine.resetter.hard_reset(lake.repo, BranchName("main"), CommitId(first))

        assert caught.value.kind is ErrorKind.OUTCOME_UNKNOWN
        assert await lake.show("main") == {"a": "2", "b": "1"}


async def test_a_commit_that_starts_over_may_come_to_the_same_commit_again() -> None:
    kv = Interrupted()
    async with open_lake(kv) as lake:
        await lake.put("main", a="1")
        branch = BranchName("main")

        async def forget_pending() -> None:
            await lake.engine.parts.branches.update(
                lake.repo, branch, lambda b, _now: replace(b, pending={}), landed=lambda b: not b.pending
            )

        # Taken for dead, it has to begin again; the tree, the parent and the second are the same.
        kv.before_swap(2, forget_pending)
        commit = await lake.engine.committer.commit(lake.repo, branch, COMMIT)

        assert (await lake.engine.parts.branches.get(lake.repo, branch)).value.commit_id == commit.id


async def test_a_condition_is_not_refused_for_a_write_that_never_came_to_be() -> None:
    class Stuck(MemoryKV):
        """Holds the first batch of rows until the others have gathered, then loses all of the second."""

        gate = asyncio.Event()
        batches = 0

        async def set_rows(self, *args, **options) -> None:
            Stuck.batches += 1
            if Stuck.batches == 1:
                await self.gate.wait()
            if Stuck.batches == 2:
                raise UnavailableError(ErrorKind.STORE_UNAVAILABLE, "no connection")
            await super().set_rows(*args, **options)

    async with open_lake(Stuck()) as lake:
        write = partial(lake.engine.parts.staging.write, lake.repo, BranchName("main"))
        first = asyncio.create_task(write([entry("z", "1")]))
        while Stuck.batches == 0:
            await asyncio.sleep(0)
        others = [asyncio.create_task(write([entry("a", n)], condition=IfAbsent())) for n in "12"]
        await asyncio.sleep(0)
        Stuck.gate.set()
        await first
        results = await asyncio.gather(*others, return_exceptions=True)

        assert [type(result) for result in results] == [UnavailableError, UnavailableError]


@pytest.mark.parametrize("noun", ["branch", "repository"])
async def test_a_deletion_nobody_can_look_for_is_not_said_to_have_failed(noun: str) -> None:
    kv = FaultyKV(MemoryKV(), plan=no_faults, clock=SystemClock())
    async with open_lake(kv) as lake:
        head = (await lake.engine.parts.branches.get(lake.repo, BranchName("main"))).value.commit_id
        await lake.engine.parts.branches.create(lake.repo, BranchName("dev"), head)
        gets = [None, Refused(), Refused()] if noun == "repository" else [None, Refused()]
        deletions = {
            "branch": partial(lake.engine.parts.branches.delete, lake.repo, BranchName("dev")),
            "repository": partial(lake.engine.repositories.delete, lake.repo),
        }
        # The first swap of a branch's deletion enters the branch in the index of work.
        swaps = [AppliedLate()] if noun == "repository" else [None, AppliedLate()]
        kv.plan = Script({Operation.SWAP: swaps, Operation.GET: gets})

        with pytest.raises(UnavailableError) as caught:
            await deletions[noun]()

        assert caught.value.kind is ErrorKind.OUTCOME_UNKNOWN
        assert await kv.land() == 1


async def test_a_stash_that_somebody_lists_meanwhile_is_made_all_the_same() -> None:
    class Listed(MemoryKV):
        lister: Callable[[], Awaitable[object]] | None = None

        async def swap(self, partition, key, value, **options):
            if key.startswith(b"stashes/") and b"standing" in value and self.lister is not None:
                lister, self.lister = self.lister, None
                await lister()
            return await super().swap(partition, key, value, **options)

    kv = Listed()
    async with open_lake(kv) as lake:
        await lake.put("main", a="1")
        kv.lister = partial(lake.engine.stashes.list, lake.repo)

        stash = await lake.engine.stashes.stash(lake.repo, BranchName("main"))

        assert [each.id for each in await lake.engine.stashes.list(lake.repo)] == [stash.id]


class Hands(SystemClock):
    """A clock with hands to turn."""

    ahead = 0.0

    def now(self) -> Instant:
        return after(super().now(), self.ahead)


@pytest.mark.parametrize("target", ["stands", "is deleted"])
async def test_a_stash_whose_popper_died_is_not_lost(target: str) -> None:
    class Dies(MemoryKV):
        armed = False

        async def swap(self, partition, key, value, **options):
            if key.startswith(b"branches/") and self.armed:
                raise UnavailableError(ErrorKind.STORE_UNAVAILABLE, "dead")
            return await super().swap(partition, key, value, **options)

    clock = Hands()
    kv = Dies(clock=clock)
    async with open_lake(kv, clock=clock) as lake:
        branches, stashes, dev = lake.engine.parts.branches, lake.engine.stashes, BranchName("dev")
        head = (await branches.get(lake.repo, BranchName("main"))).value.commit_id
        await branches.create(lake.repo, dev, head)
        await lake.put("main", a="1")
        stash = await stashes.stash(lake.repo, BranchName("main"))
        kv.armed = True
        with pytest.raises(UnavailableError):
            await stashes.pop(lake.repo, stash.id, into=dev)
        kv.armed = False
        if target == "is deleted":
            await branches.delete(lake.repo, dev)
        for _ in range(3):
            clock.ahead += 2 * GRACE_SECONDS
            await stashes.sweep(lake.repo)
            await lake.cleaner.clean_once()

        if target == "is deleted":
            await stashes.pop(lake.repo, stash.id, into=BranchName("main"))

        assert await lake.show("main" if target == "is deleted" else "dev") == {"a": "1"}


async def test_popping_again_does_not_bring_the_changes_back() -> None:
    async with open_lake() as lake:
        await lake.put("main", a="1")
        stash = await lake.engine.stashes.stash(lake.repo, BranchName("main"))
        await lake.engine.stashes.pop(lake.repo, stash.id)
        for number in range(RETIRED_LISTED + 2):
            await lake.commit("main", b=str(number))
        await lake.cleaner.clean_once()
        await lake.put("main", a="2")

        await lake.engine.stashes.pop(lake.repo, stash.id)

        assert (await lake.show("main"))["a"] == "2"


async def test_a_branch_that_others_finished_and_deleted_is_not_said_to_have_been_refused() -> None:
    kv = Interrupted(fences=False)
    async with open_lake(kv) as lake:
        branches, commits, dev = lake.engine.parts.branches, lake.engine.parts.commits, BranchName("dev")
        main = (await branches.get(lake.repo, BranchName("main"))).value
        commit = await commits.create(
            lake.repo,
            committer="",
            message="",
            tree=EMPTY_TREE,
            date=0,
            metadata={},
            parents=[main.commit_id],
            nonce=Nonce("n"),
        )

        async def finish_delete_condemn() -> None:
            await branches.get(lake.repo, dev)
            await branches.delete(lake.repo, dev)
            condemned = encode_commit(replace(commit, condemned_by="collector"))
            await kv.swap(lake.repo.partition, commit_key(commit.id), condemned, expected=Expect.ANY)

        kv.before_swap(2, finish_delete_condemn)
        with pytest.raises(UnavailableError) as caught:
            await branches.create(lake.repo, dev, commit.id)

        assert caught.value.kind is ErrorKind.OUTCOME_UNKNOWN


async def test_a_marker_that_arrives_after_its_creation_was_withdrawn_goes_too() -> None:
    clock, ids, kv = Hands(), SeededIds(1), MemoryKV()
    store = MemoryObjects()
    await store.put("somebody", b"is here")

    async def open_store(_namespace: str) -> MemoryObjects:
        return store

    repositories = Repositories(kv, open_store=open_store, clock=clock, ids=ids)
    with pytest.raises(InvalidInputError):
        await repositories.create(RepoName("lake"), "mem://lake", default_branch=BranchName("main"))
    copy = marker_key(RepoUid(SeededIds(1).token()))
    await store.put(copy, b"late")

    later = after(await kv.now(), 2 * GRACE_SECONDS)
    cleaner = Cleaner(kv, repositories, open_store=open_store, clock=clock, ids=ids)
    await cleaner.clean_once(later)

    assert await store.head(copy) is None


async def test_a_condition_does_not_outlive_the_layers_it_was_decided_on() -> None:
    class Gated(Interrupted):
        gate: asyncio.Event | None = None
        waiting = False

        async def set_rows(self, partition, rows, **options) -> None:
            if self.gate is not None and any(row.key == b"key/a" for row in rows):
                self.waiting = True
                await self.gate.wait()
            await super().set_rows(partition, rows, **options)

    kv = Gated()
    async with open_lake(kv) as lake:
        write = partial(lake.engine.parts.staging.write, lake.repo, BranchName("main"))
        await write([entry("a", "1")])
        writes: list[asyncio.Task[None]] = []

        async def decide_on_the_sealed_layers() -> None:
            await write([entry("z", "1")])
            kv.gate = asyncio.Event()
            writes.append(asyncio.create_task(write([entry("a", "2")], condition=IfChecksum("1"))))
            while not kv.waiting:
                await asyncio.sleep(0)

        # Just before the stash takes the sealed layers away; the commit and the staging token stay.
        kv.before_swap(2, decide_on_the_sealed_layers)
        await lake.engine.stashes.stash(lake.repo, BranchName("main"))
        assert kv.gate is not None
        kv.gate.set()

        with pytest.raises(PreconditionError):
            await writes[0]


async def test_a_sweep_leaves_the_stash_of_a_slow_maker_alone() -> None:
    clock = Hands()
    kv = Interrupted(clock=clock)
    async with open_lake(kv, clock=clock) as lake:
        await lake.put("main", a="1")

        async def sweep() -> None:
            clock.ahead += 2 * GRACE_SECONDS
            await lake.engine.stashes.sweep(lake.repo)

        kv.before_swap(2, sweep)
        stash = await lake.engine.stashes.stash(lake.repo, BranchName("main"))
        await lake.engine.stashes.pop(lake.repo, stash.id)

        assert await lake.show("main") == {"a": "1"}


async def test_a_slow_popper_does_not_reach_a_branch_that_was_created_again() -> None:
    kv = Interrupted()
    async with open_lake(kv) as lake:
        branches, stashes, dev = lake.engine.parts.branches, lake.engine.stashes, BranchName("dev")
        head = (await branches.get(lake.repo, BranchName("main"))).value.commit_id
        await branches.create(lake.repo, dev, head)
        await lake.put("main", a="1")
        stash = await stashes.stash(lake.repo, BranchName("main"))

        async def create_again() -> None:
            await branches.delete(lake.repo, dev)
            await branches.create(lake.repo, dev, head)
            await stashes.list(lake.repo)

        kv.before_swap(1, create_again)
        with pytest.raises(NotFoundError):
            await stashes.pop(lake.repo, stash.id, into=dev)
        await stashes.pop(lake.repo, stash.id, into=BranchName("main"))

        assert (await lake.show("dev"), await lake.show("main")) == ({}, {"a": "1"})


async def test_a_branch_remembers_a_stash_until_its_record_says_popped() -> None:
    class Mute(MemoryKV):
        armed = False

        async def swap(self, partition, key, value, **options):
            if self.armed and b"popped" in value:
                raise UnavailableError(ErrorKind.STORE_UNAVAILABLE, "dead")
            return await super().swap(partition, key, value, **options)

    kv = Mute()
    async with open_lake(kv) as lake:
        await lake.put("main", a="1")
        stash = await lake.engine.stashes.stash(lake.repo, BranchName("main"))
        kv.armed = True
        await lake.engine.stashes.pop(lake.repo, stash.id)
        for number in range(RETIRED_LISTED + 2):
            await lake.commit("main", b=str(number))
        await lake.cleaner.clean_once()
        await lake.put("main", a="2")
        kv.armed = False

        await lake.engine.stashes.list(lake.repo)

        assert (await lake.show("main"))["a"] == "2"


async def test_a_row_that_was_dropped_is_not_taken_for_one_that_was_never_written() -> None:
    class Paused(MemoryKV):
        """Leaves a batch of rows unanswered, and lets a long time pass before they are looked for."""

        armed = False
        meanwhile: Callable[[], Awaitable[object]] | None = None

        async def set_rows(self, *args, **options) -> None:
            await super().set_rows(*args, **options)
            if self.armed:
                self.armed = False
                raise UnavailableError(ErrorKind.OUTCOME_UNKNOWN, "no answer")

        async def get_many(self, lookups):
            meanwhile, self.meanwhile = self.meanwhile, None
            if meanwhile is not None:
                await meanwhile()
            return await super().get_many(lookups)

    clock = Hands()
    kv = Paused(clock=clock)
    async with open_lake(kv, clock=clock) as lake:
        main, other = BranchName("main"), Nonce("other")
        branches, committer = lake.engine.parts.branches, lake.engine.committer

        async def commit_overwrite_clean() -> None:
            await committer.commit(lake.repo, main, COMMIT)
            token = new_token(lake.repo, main, SeededIds(7))
            opened = await branches.update(
                lake.repo, main, lambda b, _now: with_open_token(b, token), landed=lambda b: False
            )
            rows = [Row(OPEN_KEY, OPEN_VALUE), Row(row_key("a"), encode_row(entry("a", "3"), other))]
            await kv.set_rows(token, rows, fence=branches.fence(lake.repo, opened.value))
            clock.ahead += 2 * GRACE_SECONDS
            await lake.cleaner.clean_once()

        kv.armed, kv.meanwhile = True, commit_overwrite_clean
        with pytest.raises(UnavailableError) as caught:
            await lake.engine.parts.staging.write(lake.repo, main, [entry("a", "2")])

        assert caught.value.kind is ErrorKind.OUTCOME_UNKNOWN
        found = await lake.engine.view.find(lake.repo, await lake.engine.source(lake.repo, "main"), Path("a"))
        assert found is not None
        assert found.checksum == "3"


async def test_a_reset_whose_row_may_still_arrive_is_not_said_to_have_failed() -> None:
    kv = FaultyKV(MemoryKV(), plan=no_faults, clock=SystemClock())
    async with open_lake(kv) as lake:
        await lake.commit("main", a="1")
        await lake.put("main", a="2")
        kv.plan = Script({Operation.SET_ROWS: [AppliedLate()], Operation.GET_MANY: [None, Refused()]})

        with pytest.raises(UnavailableError) as caught:
            await lake.engine.resetter.reset_path(lake.repo, BranchName("main"), Path("a"))

        assert caught.value.kind is ErrorKind.OUTCOME_UNKNOWN
        assert await kv.land() == 1


async def test_a_commit_that_starts_over_may_find_its_tree_compacted_meanwhile() -> None:
    # Seed 3 of "compaction-commits", with installs that do not wait for commits: the first try wrote a tree, the
    # second one takes that of a compaction, which holds the same.
    async with open_lake() as lake:
        main = (await lake.engine.parts.branches.get(lake.repo, BranchName("main"))).value

        async def create(tree: str) -> Commit:
            return await lake.engine.parts.commits.create(
                lake.repo,
                committer="",
                message="",
                tree=MetarangeId(f"{'ab' * 32}-{tree}"),
                date=0,
                metadata={},
                parents=[main.commit_id],
                nonce=Nonce("n"),
            )

        first = await create("own")

        assert await create("compacted-1") == first


async def test_an_upload_in_parts_that_is_staged_is_not_said_to_have_failed() -> None:
    # Seed 2 of "gc-manners": the entry was staged, and the database was away when that was to be noted.
    class Forgetful(MemoryKV):
        armed = False

        async def swap(self, partition, key, value, **options):
            is_noted = key.startswith(b"uploads/") and PartUploadState.COMPLETED.value.encode() in value
            if self.armed and is_noted:
                raise UnavailableError(ErrorKind.STORE_UNAVAILABLE, "no connection")
            return await super().swap(partition, key, value, **options)

    async def body() -> AsyncIterator[bytes]:
        yield b"abc"

    kv = Forgetful()
    async with open_lake(kv) as lake:
        uploads = PartUploads(lake.engine, SYSTEM)
        begun = await uploads.begin(lake.repo.name, "main", "a", Attributes())
        of = UploadOf(repo_name=lake.repo.name, branch="main", path="a", id=begun.id)
        part = await uploads.put(of, 1, body(), size_bytes=3)
        kv.armed = True

        with pytest.raises(UnavailableError) as caught:
            await uploads.complete(of, [(1, part.md5)])

        kv.armed = False
        assert caught.value.kind is ErrorKind.OUTCOME_UNKNOWN
        await uploads.complete(of, [(1, part.md5)])
        assert await lake.show("main") == {"a": "abc"}


async def test_a_retired_layer_that_is_dropped_while_it_is_listed_is_no_damage() -> None:
    # Seed 3 of "gc-storms": a cleaner died between the entry for a token and the swap of its branch's record. Whoever
    # came next dropped the token, a grace later, and the record still had it among the retired.
    class Dropping(MemoryKV):
        looks = -1

        async def get(self, partition, key):
            if key == OPEN_KEY and self.looks >= 0:
                self.looks += 1
                if self.looks == 2:
                    await self.delete_rows(partition, [OPEN_KEY])
            return await super().get(partition, key)

    kv = Dropping()
    async with open_lake(kv) as lake:
        await lake.commit("main", a="1")
        record = (await lake.engine.parts.branches.get(lake.repo, BranchName("main"))).value
        assert [type(each.layer) for each in record.retired] == [TokenLayer]
        kv.looks = 0

        page = await lake.engine.gc.prepare_uncommitted(lake.repo, None)

        assert kv.looks == 2
        assert (page.rows, page.following) == (1, None)
