from contextlib import suppress
from dataclasses import replace

import pytest

from lakebed.errors import ConflictError, LakebedError
from lakebed.format.records import decode_branch, decode_stash, encode_branch, encode_cleanup, encode_stash
from lakebed.format.rows import OPEN_KEY
from lakebed.kv.port import Expect, Row
from lakebed.limits import GRACE_SECONDS, RETIRED_LISTED
from lakebed.model.branch import Branch, DeletedBranch
from lakebed.model.ids import BranchName, CommitId, Nonce, StagingToken
from lakebed.model.layers import Layer, RetiredLayer, SegmentLayer, TokenLayer
from lakebed.model.repository import CleanupEntry, Repository, TokenCleanup
from lakebed.model.stash import Stash, StashState
from lakebed.objects.port import OpenUpload
from lakebed.refs.keys import (
    CLEANUP_PARTITION,
    branch_key,
    repository_cleanup_key,
    stash_key,
    token_cleanup_key,
)
from lakebed.refs.owners import marker_key
from tests.unit.refs.world import Call, Crash, Fault, World

MAIN = BranchName("main")
OLD = StagingToken("lake-main:old")
SEGMENT = SegmentLayer(
    id="s", dataset="d", seq=2, min_key="a", max_key="b", entries=1, tombstones=0, bytes=1, level=0
)


async def retire(world: World, *layers: Layer) -> Repository:
    """A repository whose default branch retired these layers just now; the tokens have rows."""
    repo = await world.create_repository()
    branch = await world.branches.get(repo, MAIN)
    retired = tuple(RetiredLayer(layer=layer, at=world.clock.now()) for layer in layers)
    await world.branches.swap(repo, branch, replace(branch.value, retired=retired, next_seq=9))
    for layer in layers:
        if isinstance(layer, TokenLayer):
            await world.memory.set_rows(layer.token, [Row(OPEN_KEY, b""), Row(b"key/a", b"x")])
    return repo


def old_layer() -> TokenLayer:
    return TokenLayer(token=OLD, seq=1)


async def test_a_retired_layer_stays_for_a_grace_period(world: World) -> None:
    repo = await retire(world, old_layer())
    before = await world.branches.get(repo, MAIN)
    world.clock.advance(GRACE_SECONDS)
    await world.cleaner.clean_once()
    assert await world.branches.get(repo, MAIN) == before
    assert OLD in await world.partitions()


async def test_an_old_retired_layer_is_dropped_and_forgotten(world: World) -> None:
    repo = await retire(world, old_layer(), SEGMENT)
    world.clock.advance(GRACE_SECONDS + 1)
    assert (await world.cleaner.round(world.clock.now())).tokens == 1
    assert (await world.branches.get(repo, MAIN)).value.retired == ()
    assert await world.partitions() == {"lakebed", repo.partition}


async def test_only_old_layers_are_drained(world: World) -> None:
    repo = await retire(world, old_layer())
    world.clock.advance(GRACE_SECONDS)
    young = RetiredLayer(layer=SEGMENT, at=world.clock.now())
    branch = await world.branches.get(repo, MAIN)
    await world.branches.swap(repo, branch, replace(branch.value, retired=(*branch.value.retired, young)))
    world.clock.advance(1)
    await world.cleaner.round(world.clock.now())
    assert (await world.branches.get(repo, MAIN)).value.retired == (young,)


async def test_a_branch_keeps_its_fence_when_it_is_drained() -> None:
    world = World()
    repo = await retire(world, old_layer())
    staged = await world.branches.update(
        repo,
        MAIN,
        lambda b, _: replace(b, staging_token=StagingToken("t")),
        landed=lambda b: b.staging_token == "t",
    )
    world.clock.advance(GRACE_SECONDS + 1)
    await world.cleaner.round(world.clock.now())
    await world.memory.set_rows(
        "t", [Row(b"k", b"")], fence=world.branches.fence(repo, staged.value, commit=True)
    )


async def test_the_tombstone_of_a_branch_drains_like_a_branch(world: World) -> None:
    repo = await world.create_repository()
    head = (await world.branches.get(repo, MAIN)).value.commit_id
    dev = await world.branches.create(repo, BranchName("dev"), head)
    await world.branches.swap(repo, dev, replace(dev.value, staging_token=OLD))
    await world.memory.set_rows(OLD, [Row(OPEN_KEY, b"")])
    await world.branches.delete(repo, BranchName("dev"))
    world.clock.advance(GRACE_SECONDS + 1)

    assert (await world.cleaner.round(world.clock.now())).tokens == 1

    found = await world.branches.find(repo, BranchName("dev"))
    assert found is not None
    assert isinstance(found.value, DeletedBranch)
    assert (found.value.retired, found.value.next_seq) == ((), 2)
    assert OLD not in await world.partitions()


@pytest.mark.parametrize("where", ["staging", "sealed", "stash"])
async def test_a_token_that_is_still_named_is_never_dropped(world: World, where: str) -> None:
    repo = await retire(world, old_layer())
    world.clock.advance(GRACE_SECONDS + 1)
    entry = TokenCleanup(token=OLD, partition=repo.partition, branch=MAIN)
    key = token_cleanup_key(world.clock.now(), OLD)
    await world.memory.swap(CLEANUP_PARTITION, key, encode_cleanup(entry), expected=Expect.ABSENT)
    main = await world.branches.get(repo, MAIN)
    if where == "staging":
        await world.branches.swap(repo, main, replace(main.value, retired=(), staging_token=OLD))
    elif where == "sealed":
        await world.branches.swap(repo, main, replace(main.value, retired=(), sealed=(old_layer(),)))
    else:
        await put_stash(world, repo, StashState.STANDING)

    assert (await world.cleaner.clean_once()).tokens == 0

    assert await world.memory.get(OLD, OPEN_KEY) is not None
    assert CLEANUP_PARTITION in await world.partitions()


@pytest.mark.parametrize("at", [1, 2])
async def test_a_token_that_is_popped_while_the_cleaner_looks_is_seen_in_the_stash_or_on_the_branch(
    world: World, at: int
) -> None:
    """A pop moves a token from a stash to a branch: read in the other order, both looks would miss it."""
    repo = await retire(world, old_layer())
    head = (await world.branches.get(repo, MAIN)).value.commit_id
    await world.branches.create(repo, BranchName("dev"), head)
    await put_stash(world, repo, StashState.POPPING, branch=BranchName("dev"))
    entry = TokenCleanup(token=OLD, partition=repo.partition, branch=MAIN)
    key = token_cleanup_key(world.clock.now(), OLD)
    await world.memory.swap(CLEANUP_PARTITION, key, encode_cleanup(entry), expected=Expect.ABSENT)
    world.clock.advance(GRACE_SECONDS + 1)
    scans = 0

    async def popper(call: Call) -> None:
        nonlocal scans
        scans += call.method == "scan" and call.key.startswith(b"stashes/")
        if scans == at:
            world.kv.read_hook = None
            dev = await world.branches.get(repo, BranchName("dev"))
            await world.branches.swap(repo, dev, replace(dev.value, sealed=(old_layer(),), next_seq=9))
            stash = await world.memory.get(repo.partition, stash_key(Nonce("s")))
            assert stash is not None
            value = encode_stash(replace(decode_stash(stash.value), state=StashState.POPPED))
            await world.memory.swap(repo.partition, stash.key, value, expected=stash.version)

    world.kv.read_hook = popper
    assert (await world.cleaner.clean_once()).tokens == 0
    assert scans == at
    assert await world.memory.get(OLD, OPEN_KEY) is not None


async def test_the_token_of_a_popped_stash_is_dropped_with_its_layer(world: World) -> None:
    repo = await retire(world, old_layer())
    await put_stash(world, repo, StashState.POPPED)
    world.clock.advance(GRACE_SECONDS + 1)
    assert (await world.cleaner.clean_once()).tokens == 1


async def put_stash(world: World, repo: Repository, state: StashState, *, branch: BranchName = MAIN) -> None:
    stash = Stash(
        id=Nonce("s"),
        branch=branch,
        base=CommitId("0" * 64),
        layer=old_layer(),
        message="",
        state=state,
        at=world.clock.now(),
    )
    await world.memory.swap(repo.partition, stash_key(stash.id), encode_stash(stash), expected=Expect.ABSENT)


async def test_the_rows_of_stashes_go_with_their_repository(world: World) -> None:
    repo = await world.create_repository()
    await put_stash(world, repo, StashState.STANDING)
    await world.memory.set_rows(OLD, [Row(OPEN_KEY, b"")])
    await world.repositories.delete(repo)
    await world.clean()
    assert await world.partitions() == set()


@pytest.mark.parametrize("fault", list(Fault))
async def test_whatever_happens_at_any_step_of_draining_the_token_goes_in_the_end(
    world: World, fault: Fault
) -> None:
    fences = world.memory.capabilities.fences
    for at in range(1, 12):
        world = World(fences=fences, seed=at)
        repo = await retire(world, old_layer(), SEGMENT)
        world.clock.advance(GRACE_SECONDS + 1)
        count = 0

        async def hook(_call: Call, at: int = at) -> Fault | None:
            nonlocal count
            count += 1
            return fault if count == at else None

        world.kv.hook = hook
        with suppress(Crash, LakebedError):
            await world.cleaner.round(world.clock.now())
        world.restart()
        await world.clean()
        assert (await world.branches.get(repo, MAIN)).value.retired == ()
        assert await world.partitions() == {"lakebed", repo.partition}
        if count < at:
            break
    else:
        pytest.fail("draining has more steps than the test knows")


async def test_the_entry_is_written_before_the_layer_leaves_the_record(world: World) -> None:
    await retire(world, old_layer())
    world.clock.advance(GRACE_SECONDS + 1)
    order: list[str] = []

    async def watch(call: Call) -> None:
        order.append(f"{call.method} {'branch' if call.key == branch_key(MAIN) else call.where}")

    world.kv.hook = watch
    await world.cleaner.round(world.clock.now())
    assert order == ["swap cleanup", "swap branch", "remove todo", f"drop {OLD}", "delete_rows cleanup"]


async def test_a_branch_that_moves_while_it_is_drained_waits_for_the_next_round(world: World) -> None:
    repo = await retire(world, old_layer())
    world.clock.advance(GRACE_SECONDS + 1)

    async def rival(call: Call) -> None:
        if call.key == branch_key(MAIN):
            world.kv.hook = None
            await world.branches.update(
                repo, MAIN, lambda b, _: replace(b, last_token=7), landed=lambda b: b.last_token == 7
            )

    world.kv.hook = rival
    await world.cleaner.round(world.clock.now())
    assert (await world.branches.get(repo, MAIN)).value.retired != ()

    await world.cleaner.round(world.clock.now())
    after = (await world.branches.get(repo, MAIN)).value
    assert (after.last_token, after.retired) == (7, ())


async def test_two_entries_of_one_repository_are_worked_off_in_one_run(world: World) -> None:
    await retire(world, old_layer(), TokenLayer(token=StagingToken("lake-main:older"), seq=0))
    world.clock.advance(GRACE_SECONDS + 1)
    assert (await world.cleaner.clean_once()).tokens == 2


async def test_nothing_is_removed_of_a_uid_that_a_record_names(world: World) -> None:
    repo = await world.create_repository()
    entry = CleanupEntry(name=repo.name, uid=repo.uid, namespace=repo.namespace, delete_data=True)
    key = repository_cleanup_key(world.clock.now(), repo.uid)
    await world.memory.swap(CLEANUP_PARTITION, key, encode_cleanup(entry), expected=Expect.ABSENT)
    before = await world.objects()

    done = await world.clean()

    assert (done.repositories, done.failed) == (0, 0)
    assert await world.objects() == before
    await world.branches.get(repo, MAIN)


async def test_a_deleted_repository_is_cleaned_only_when_it_is_due(world: World) -> None:
    repo = await world.create_repository()
    await world.repositories.delete(repo)
    await world.cleaner.clean_once()
    assert repo.partition in await world.partitions()
    assert (await world.clean()).repositories == 1
    assert repo.partition not in await world.partitions()


async def test_data_stays_unless_it_was_to_be_deleted(world: World) -> None:
    repo = await world.create_repository()
    store = await world.open_store(repo.namespace)
    await store.put("data/s/o", b"x")
    await store.put("_lakebed/ranges/r.parquet", b"x")
    await store.put("mine/readme", b"x")
    await world.repositories.delete(repo)
    await world.clean()
    assert await world.objects() == [
        "bucket/lake/_lakebed/ranges/r.parquet",
        "bucket/lake/data/s/o",
        "bucket/lake/mine/readme",
    ]
    again = await world.create_repository(bare=True)
    await world.repositories.delete(again, delete_data=True)
    await world.clean_late()
    assert await world.objects() == ["bucket/lake/mine/readme"]


async def test_deleting_data_aborts_the_uploads_of_the_namespace_and_of_no_other(world: World) -> None:
    repo = await world.create_repository()
    store = await world.open_store(repo.namespace)
    beside = await world.open_store("mem://bucket/lake2")
    for key in ("data/s/a", "data/s/b"):
        await store.create_upload(key)
    kept = await beside.create_upload("data/s/a")
    await world.repositories.delete(repo, delete_data=True)

    await world.clean()

    left = [upload async for page in world.whole.list_uploads() for upload in page]
    assert left == [OpenUpload("bucket/lake2/data/s/a", kept)]


@pytest.mark.parametrize("fault", [Fault.CRASH_BEFORE, Fault.CRASH_AFTER, Fault.REFUSED, Fault.LOST_REPLY])
async def test_a_deletion_with_data_leaves_nothing_wherever_it_broke_off(world: World, fault: Fault) -> None:
    for broken in range(20):
        repo = await world.create_repository()
        store = await world.open_store(repo.namespace)
        await store.put("data/s/o", b"x")
        await store.create_upload("data/s/u")
        await world.repositories.delete(repo, delete_data=True)
        calls: list[Call] = []

        async def break_off(call: Call, calls: list[Call] = calls, broken: int = broken) -> Fault | None:
            calls.append(call)
            return fault if len(calls) == broken else None

        world.clock.advance(GRACE_SECONDS + 1)
        world.store_hook = break_off
        with suppress(Crash):
            await world.cleaner.clean_once()
        world.restart()
        await world.clean_late()

        assert await world.objects() == []
        assert [page async for page in world.whole.list_uploads()] == []
        assert await world.partitions() <= {"lakebed"}
        if broken and len(calls) < broken:
            return
    raise AssertionError("the last call was not reached")


async def test_uploads_of_the_next_owner_are_not_aborted(world: World) -> None:
    repo = await world.create_repository()
    await world.repositories.delete(repo, delete_data=True)
    world.clock.advance(GRACE_SECONDS + 1)
    taken: list[str] = []

    async def taken_over(call: Call) -> Fault | None:
        if call.method == "delete" and not taken:
            await call.action()
            store = await world.open_store(repo.namespace)
            if await store.head(marker_key(repo.uid)) is None:
                taken.append("now")
                await store.create_upload("data/s/new")
                return Fault.REFUSED
        return None

    world.store_hook = taken_over
    await world.cleaner.clean_once()
    world.store_hook = None
    await world.cleaner.clean_once()

    left = [upload.key async for page in world.whole.list_uploads() for upload in page]
    assert (taken, left) == (["now"], ["bucket/lake/data/s/new"])


async def test_rows_can_no_longer_be_staged_once_the_tokens_are_dropped() -> None:
    world = World()
    repo = await world.create_repository()
    staged = await world.branches.update(
        repo, MAIN, lambda b, _: replace(b, staging_token=OLD), landed=lambda b: b.staging_token == OLD
    )
    fence = world.branches.fence(repo, staged.value)
    await world.memory.set_rows(OLD, [Row(OPEN_KEY, b"")], fence=fence)
    await world.repositories.delete(repo)

    async def late_writer(call: Call) -> None:
        if call.method == "drop" and call.where == OLD:
            with pytest.raises(ConflictError):
                await world.memory.set_rows(OLD, [Row(b"key/a", b"x")], fence=fence)

    world.kv.hook = late_writer
    await world.clean()
    assert OLD not in await world.partitions()


@pytest.mark.parametrize("fault", [Fault.CONFLICT, Fault.LOST_REPLY])
async def test_burying_the_branches_of_a_dead_repository_goes_on_when_a_swap_is_lost(
    world: World, fault: Fault
) -> None:
    repo = await world.create_repository()
    await world.repositories.delete(repo)

    async def once(call: Call) -> Fault | None:
        if call.key == branch_key(MAIN):
            world.kv.hook = None
            return fault
        return None

    world.kv.hook = once
    assert (await world.clean()).repositories == 1


async def test_one_entry_that_fails_holds_up_no_other(world: World) -> None:
    one = await world.create_repository("one", "mem://one")
    two = await world.create_repository("two", "mem://two")
    for repo in (one, two):
        await world.repositories.delete(repo)
    await world.memory.swap(CLEANUP_PARTITION, b"0000/damaged", b"\xff", expected=Expect.ABSENT)

    async def hook(call: Call) -> Fault | None:
        return Fault.REFUSED if call.where == "one/" else None

    world.store_hook = hook
    done = await world.clean()
    assert (done.repositories, done.failed) == (1, 2)
    assert two.partition not in await world.partitions()

    world.store_hook = None
    done = await world.cleaner.clean_once()
    assert (done.repositories, done.failed) == (1, 1)


async def test_a_branch_of_a_dead_repository_that_always_moves_is_left_for_the_next_run(
    world: World,
) -> None:
    await world.repositories.delete(await world.create_repository())

    async def always(call: Call) -> Fault | None:
        return Fault.CONFLICT if call.key == branch_key(MAIN) else None

    world.kv.hook = always
    done = await world.clean()
    assert (done.repositories, done.failed) == (0, 1)


async def test_a_branch_that_vanishes_while_its_repository_is_cleaned_has_no_tokens(world: World) -> None:
    repo = await world.create_repository()
    await world.repositories.delete(repo)

    async def second_cleaner(call: Call) -> None:
        if call.key == branch_key(MAIN):
            world.kv.read_hook = None
            await world.memory.drop(repo.partition)

    world.kv.read_hook = second_cleaner
    assert (await world.clean()).repositories == 1


async def test_the_cleaner_finishes_a_tentative_branch_and_then_drains_it(world: World) -> None:
    repo = await retire(world, old_layer())
    branch = await world.branches.get(repo, MAIN)
    value = encode_branch(replace(branch.value, tentative=True))
    await world.memory.swap(repo.partition, branch_key(MAIN), value, expected=branch.version)
    world.clock.advance(GRACE_SECONDS + 1)
    await world.cleaner.clean_once()
    item = await world.memory.get(repo.partition, branch_key(MAIN))
    assert item is not None
    finished = decode_branch(item.value)
    assert isinstance(finished, Branch)
    assert not finished.tentative
    assert (await world.cleaner.clean_once()).tokens == 1


async def test_a_record_with_many_retired_layers_gets_short_and_loses_none_before_its_time(
    world: World,
) -> None:
    tokens = [StagingToken(f"lake-main:{n:03d}") for n in range(RETIRED_LISTED + 10)]
    repo = await retire(world, *(TokenLayer(token=token, seq=n + 1) for n, token in enumerate(tokens)))

    for _ in range(2):
        await world.cleaner.clean_once()
        assert len((await world.branches.get(repo, MAIN)).value.retired) == RETIRED_LISTED
        assert await world.partitions() >= set(tokens)

    world.clock.advance(GRACE_SECONDS + 1)
    assert (await world.cleaner.clean_once()).tokens == len(tokens)
    assert (await world.branches.get(repo, MAIN)).value.retired == ()
    assert not await world.partitions() & set(tokens)
