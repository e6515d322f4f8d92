"""The `todo` index: a branch that needs attention always has its entry, and idle ones are not read."""

from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest

from lakebed.env.clock import Instant
from lakebed.errors import ErrorKind, LakebedError, UnavailableError
from lakebed.format.records import decode_branch, decode_todo, encode_branch
from lakebed.kv.port import Expect
from lakebed.limits import GRACE_SECONDS, PENDING_TIMEOUT_SECONDS, RETIRED_LISTED, RETIRED_URGENT
from lakebed.model.branch import Branch, BranchRecord, DeletedBranch, Pending
from lakebed.model.ids import BranchName, CommitId, Nonce, StagingToken
from lakebed.model.layers import RetiredLayer, TokenLayer
from lakebed.model.repository import Repository
from lakebed.model.stash import StashState
from lakebed.refs.attention import needs_attention
from lakebed.refs.keys import TODO_PARTITION, branch_key, todo_key
from tests.unit.refs.test_cleaner import put_stash
from tests.unit.refs.world import Call, Crash, Fault, World

MAIN = BranchName("main")
DEV = BranchName("dev")


async def due_of(world: World, repo: Repository, name: BranchName = MAIN) -> Instant | None:
    item = await world.memory.get(TODO_PARTITION, todo_key(repo.partition, name))
    return decode_todo(item.value).due if item is not None else None


async def record_of(world: World, repo: Repository, name: BranchName = MAIN) -> BranchRecord | None:
    item = await world.memory.get(repo.partition, branch_key(name))
    return decode_branch(item.value) if item is not None else None


async def change(world: World, repo: Repository, by: Callable[[Branch], Branch]) -> None:
    found = await world.branches.get(repo, MAIN)
    await world.branches.swap(repo, found, by(found.value))


def retired(world: World, number: int = 0) -> RetiredLayer:
    layer = TokenLayer(token=StagingToken(f"lake-main:{number}"), seq=number + 1)
    return RetiredLayer(layer=layer, at=world.clock.now())


async def busy(world: World, repo: Repository) -> None:
    """Make the default branch need attention."""
    await change(world, repo, lambda b: replace(b, retired=(*b.retired, retired(world)), next_seq=99))


async def round_of(world: World) -> None:
    await world.cleaner.round(world.clock.now())


async def test_a_branch_with_nothing_to_do_has_no_entry(world: World) -> None:
    repo = await world.create_repository()
    await change(world, repo, lambda b: replace(b, staging_token=StagingToken("t")))
    assert await due_of(world, repo) is None


async def test_the_entry_is_there_before_the_record_says_so(world: World) -> None:
    repo = await world.create_repository()
    order: list[str] = []

    async def watch(call: Call) -> None:
        order.append(call.where if call.where == TODO_PARTITION else call.key.decode())

    world.kv.hook = watch
    await busy(world, repo)
    assert order == [TODO_PARTITION, "branches/main"]
    record = await record_of(world, repo)
    assert record is not None
    assert record.indexed
    assert await due_of(world, repo) == 0


async def test_a_busy_branch_pays_one_put_and_then_one_in_many_commits(world: World) -> None:
    repo = await world.create_repository()
    puts = 0

    async def count(call: Call) -> None:
        nonlocal puts
        puts += call.where == TODO_PARTITION

    world.kv.hook = count
    for number in range(RETIRED_URGENT - 1):
        layer = retired(world, number)
        await change(world, repo, lambda b, add=layer: replace(b, retired=(*b.retired, add), next_seq=99))
    assert puts == 1
    last = retired(world, RETIRED_URGENT)
    await change(world, repo, lambda b: replace(b, retired=(*b.retired, last), next_seq=99))
    assert puts == 2, "a record that gets long is looked at before its time"


async def test_a_branch_that_is_not_due_is_not_read_again(world: World) -> None:
    repo = await world.create_repository()
    await busy(world, repo)
    await round_of(world)
    assert await due_of(world, repo) == world.clock.now() + int(GRACE_SECONDS * 1_000_000)
    reads: list[bytes] = []

    async def watch(call: Call) -> None:
        reads.append(call.key)

    world.kv.read_hook = watch
    await round_of(world)
    assert not [key for key in reads if key.startswith(b"branches/")]


async def test_a_drained_branch_leaves_the_index(world: World) -> None:
    repo = await world.create_repository()
    await busy(world, repo)
    world.clock.advance(GRACE_SECONDS + 1)
    await round_of(world)
    assert await due_of(world, repo) is None
    record = await record_of(world, repo)
    assert record is not None
    assert not record.indexed
    assert not needs_attention(record)


async def test_a_record_that_lists_too_many_layers_stays_due(world: World) -> None:
    repo = await world.create_repository()
    many = tuple(retired(world, number) for number in range(3 * RETIRED_LISTED))
    await change(world, repo, lambda b: replace(b, retired=many, next_seq=99))
    await round_of(world)
    record = await record_of(world, repo)
    assert record is not None
    assert len(record.retired) == RETIRED_LISTED
    assert await due_of(world, repo) == many[-RETIRED_LISTED].at + int(GRACE_SECONDS * 1_000_000)


async def test_a_pending_operation_whose_process_died_is_forgotten(world: World) -> None:
    repo = await world.create_repository()
    entry = Pending(commits=(CommitId("0" * 64),), renewed_at=world.clock.now())
    await change(world, repo, lambda b: replace(b, pending={Nonce("n"): entry}))
    await round_of(world)
    assert (await world.branches.get(repo, MAIN)).value.pending
    world.clock.advance(PENDING_TIMEOUT_SECONDS + 1)
    await round_of(world)
    assert not (await world.branches.get(repo, MAIN)).value.pending
    assert await due_of(world, repo) is None


async def test_the_name_of_a_stash_leaves_the_branch_once_the_stash_stands(world: World) -> None:
    repo = await world.create_repository()
    await put_stash(world, repo, StashState.STANDING)
    await change(world, repo, lambda b: replace(b, stashes=(Nonce("s"), Nonce("gone"))))
    await round_of(world)
    assert (await world.branches.get(repo, MAIN)).value.stashes == ()


Meddle = Callable[[World, Repository], Awaitable[None]]


@pytest.mark.parametrize("at", ["before the swap", "before the removal"])
async def test_a_writer_at_any_moment_of_a_look_keeps_its_entry(world: World, at: str) -> None:
    """What the rules are for: put first, swap `indexed` off in any case, remove at the version that was read."""
    repo = await world.create_repository()
    await busy(world, repo)
    world.clock.advance(GRACE_SECONDS + 1)

    async def writer(call: Call) -> None:
        is_swap = call.method == "swap" and call.key == branch_key(MAIN)
        is_removal = call.method == "remove" and call.where == TODO_PARTITION
        if is_swap if at == "before the swap" else is_removal:
            world.kv.hook = None
            await busy(world, repo)

    world.kv.hook = writer
    await round_of(world)
    record = await record_of(world, repo)
    assert record is not None
    assert needs_attention(record)
    assert record.indexed
    assert await due_of(world, repo) is not None


async def test_a_writer_that_put_its_entry_before_the_look_and_swaps_after_it_loses(world: World) -> None:
    repo = await world.create_repository()
    found = await world.branches.get(repo, MAIN)

    async def look(call: Call) -> None:
        if call.key == branch_key(MAIN):
            world.kv.hook = None
            await round_of(world)

    world.kv.hook = look
    with pytest.raises(LakebedError) as caught:
        await world.branches.swap(repo, found, replace(found.value, retired=(retired(world),), next_seq=9))
    assert caught.value.kind is ErrorKind.VERSION_CHANGED, "an idle record is swapped too"
    assert await due_of(world, repo) is None
    await busy(world, repo)
    assert await due_of(world, repo) == 0


async def test_a_put_without_an_answer_is_not_taken_for_an_older_entry(world: World) -> None:
    repo = await world.create_repository()
    await busy(world, repo)
    older = await world.memory.get(TODO_PARTITION, todo_key(repo.partition, MAIN))
    assert older is not None
    item = await world.memory.get(repo.partition, branch_key(MAIN))
    assert item is not None
    idle = replace(decode_branch(item.value), indexed=False, retired=())
    await world.memory.swap(repo.partition, item.key, encode_branch(idle), expected=item.version)

    async def lose(call: Call) -> Fault | None:
        world.kv.hook = None
        assert call.where == TODO_PARTITION
        return Fault.LOST_REQUEST

    world.kv.hook = lose
    await busy(world, repo)
    newer = await world.memory.get(TODO_PARTITION, todo_key(repo.partition, MAIN))
    assert newer is not None
    assert newer.version > older.version


async def test_a_branch_does_not_change_if_its_entry_cannot_be_written(world: World) -> None:
    repo = await world.create_repository()
    before = await record_of(world, repo)

    async def refuse(call: Call) -> Fault | None:
        return Fault.REFUSED if call.where == TODO_PARTITION else None

    world.kv.hook = refuse
    with pytest.raises(UnavailableError):
        await busy(world, repo)
    assert await record_of(world, repo) == before


@pytest.mark.parametrize("fault", [Fault.CRASH_BEFORE, Fault.CRASH_AFTER, Fault.LOST_REPLY, Fault.CONFLICT])
async def test_a_deleted_branch_leaves_nothing_wherever_a_round_breaks_off(fault: Fault) -> None:
    for at in range(1, 20):
        world = World(seed=at)
        repo = await world.create_repository()
        head = (await world.branches.get(repo, MAIN)).value.commit_id
        before = set(world.memory._partitions)
        dev = await world.branches.create(repo, DEV, head)
        token = StagingToken("lake-dev:t")
        await world.branches.swap(repo, dev, replace(dev.value, staging_token=token))
        await world.memory.swap(token, b"open", b"", expected=Expect.ABSENT)
        await world.branches.delete(repo, DEV)
        count = 0

        async def hook(_call: Call, at: int = at) -> Fault | None:
            nonlocal count
            count += 1
            return fault if count == at else None

        world.kv.hook = hook
        for _ in range(3):
            world.clock.advance(GRACE_SECONDS + 1)
            try:
                await round_of(world)
            except Crash:
                world.restart()
        world.kv.hook = None
        world.clock.advance(GRACE_SECONDS + 1)
        await round_of(world)
        assert await record_of(world, repo, DEV) is None
        assert set(world.memory._partitions) == before
        if count < at:
            break
    else:
        pytest.fail("a round has more steps than the test knows")


async def test_a_tombstone_stays_for_a_grace_and_while_a_stash_is_popping_into_it(world: World) -> None:
    repo = await world.create_repository()
    head = (await world.branches.get(repo, MAIN)).value.commit_id
    await world.branches.create(repo, DEV, head)
    await world.branches.delete(repo, DEV)
    world.clock.advance(GRACE_SECONDS)
    await round_of(world)
    assert isinstance(await record_of(world, repo, DEV), DeletedBranch)
    await put_stash(world, repo, StashState.POPPING, branch=DEV)
    world.clock.advance(GRACE_SECONDS)
    await round_of(world)
    assert isinstance(await record_of(world, repo, DEV), DeletedBranch)


async def test_a_namesake_is_never_taken_for_the_branch_before_it(world: World) -> None:
    repo = await world.create_repository()
    head = (await world.branches.get(repo, MAIN)).value.commit_id
    first = await world.branches.create(repo, DEV, head)
    await world.branches.delete(repo, DEV)
    for _ in range(2):
        world.clock.advance(GRACE_SECONDS + 1)
        await round_of(world)
    second = await world.branches.create(repo, DEV, head)
    assert second.version > first.version
    assert second.value.incarnation != first.value.incarnation
    with pytest.raises(LakebedError):
        await world.branches.swap(repo, first, replace(first.value, next_seq=9))


async def test_records_of_an_older_lakebed_are_entered_by_the_full_look(world: World) -> None:
    repo = await world.create_repository()
    old = DeletedBranch(
        name=DEV, next_seq=1, last_token=0, min_era=0, retired=(), updated_at=world.clock.now()
    )
    await world.memory.swap(repo.partition, branch_key(DEV), encode_branch(old), expected=Expect.ABSENT)
    world.clock.advance(GRACE_SECONDS + 1)
    await round_of(world)
    assert await record_of(world, repo, DEV) is not None
    await world.cleaner.clean_once()
    assert await record_of(world, repo, DEV) is None
    assert TODO_PARTITION not in await world.partitions()


async def test_entries_of_a_deleted_repository_go(world: World) -> None:
    repo = await world.create_repository()
    await busy(world, repo)
    await world.repositories.delete(repo)
    await world.clean()
    await world.clean()
    assert await world.partitions() == set()
