"""Dumps that a server writes by itself: what they hold, when they are written, and how long they are kept."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakebed.env.clock import Instant
from lakebed.env.work import InlineWorkers
from lakebed.errors import CorruptError, ErrorKind
from lakebed.format.dump_chain import decode_dump_chain, encode_dump_chain
from lakebed.limits import (
    REFS_DUMP_FULL_SECONDS,
    REFS_DUMP_INCREMENTS_MAX,
    REFS_DUMP_KEPT_SECONDS,
    REFS_DUMP_SECONDS,
)
from lakebed.model.commits import Commit
from lakebed.model.dump_chain import DumpChain, FullDump
from lakebed.model.ids import BranchName, CommitId, TagName
from lakebed.model.repository import Repository
from lakebed.refs.dump_files import DumpName, StoredDump, list_dumps, open_dump
from lakebed.refs.keys import DUMP_CHAIN_KEY
from lakebed.refs.new_commits import commits_since
from tests.unit.refs.world import Call, Crash, Fault, World

MAIN = BranchName("main")
CHAIN = DumpChain(number=7, digest="ab", fulls=(FullDump(1, Instant(5)), FullDump(6, Instant(9))))


async def move(world: World, repo: Repository, name: str = "main", message: str = "") -> Commit:
    """Commit on a branch."""
    branch = await world.branches.get(repo, BranchName(name))
    commit = await world.commit(repo, branch.value.commit_id, message=message)
    await world.branches.update(
        repo,
        BranchName(name),
        lambda record, _now: _with_head(record, commit.id),
        landed=lambda record: record.commit_id == commit.id,
    )
    return commit


def _with_head(record: Any, commit_id: CommitId) -> Any:
    from dataclasses import replace

    return replace(record, commit_id=commit_id)


async def newest(world: World, repo: Repository) -> StoredDump:
    store = await world.open_store(repo.namespace)
    return await open_dump(store, (await list_dumps(store, repo.uid))[-1], InlineWorkers())


async def held(dump: StoredDump) -> set[CommitId]:
    return {commit.id async for group in dump.commits() for commit in group}


def ancestors(commits: Iterable[Commit], of: Iterable[CommitId]) -> set[CommitId]:
    known, found, waiting = {c.id: c for c in commits}, set[CommitId](), list(of)
    while waiting:
        if (each := waiting.pop()) not in found:
            found.add(each)
            waiting += known[each].parents
    return found


async def test_every_dump_and_those_it_is_based_on_hold_all_refs_and_their_history(world: World) -> None:
    repo = await world.create_repository()
    numbers = []
    for number in range(5):
        head = await move(world, repo)
        if number == 1:
            await world.branches.create(repo, BranchName("dev"), head.id, hidden=True)
        if number == 2:
            await world.tags.create(repo, TagName("v1"), head.id)
        if number == 3:
            await world.branches.delete(repo, BranchName("dev"))
        numbers.append(await world.automatic_dumps.dump(repo))
        dump = await newest(world, repo)
        assert dump.heads == await world.dumper.heads(repo)
        commits = [c async for page in world.commits.scan(repo) for c in page]
        assert await held(dump) == ancestors(commits, dump.heads.commits)
        assert (dump.head.number, dump.head.base) == (number + 1, 1)
    assert numbers == [f"{repo.uid}/00000000-{number:08}" for number in range(1, 6)]


async def test_a_repository_whose_refs_did_not_move_is_not_dumped_again(world: World) -> None:
    repo = await world.create_repository()
    now = world.clock.now()
    assert await world.automatic_dumps.run_due(repo, now) is not None
    writes: list[Call] = []

    async def watch(call: Call) -> Fault | None:
        writes.append(call)
        return None

    world.kv.hook = world.store_hook = watch
    for _ in range(10):
        assert await world.automatic_dumps.run_due(repo, world.clock.now()) is None
        world.clock.advance(REFS_DUMP_SECONDS)
    assert writes == []
    await move(world, repo)
    assert await world.automatic_dumps.run_due(repo, world.clock.now()) is not None


async def test_a_full_dump_comes_after_a_day_and_old_chains_go_after_a_week(world: World) -> None:
    repo = await world.create_repository()
    store = await world.open_store(repo.namespace)
    for _ in range(24):
        await move(world, repo)
        await world.automatic_dumps.dump(repo)
        world.clock.advance(REFS_DUMP_FULL_SECONDS / 2)
        kept = [name.number for name in await list_dumps(store, repo.uid)]
        dump = await newest(world, repo)
        assert await held(dump)
        oldest = await open_dump(store, DumpName(repo.uid, 0, kept[0]), InlineWorkers())
        assert oldest.head.base == oldest.head.number, "what is left begins with a full dump"
    assert kept[0] > 1, "some are gone"
    age = REFS_DUMP_KEPT_SECONDS / REFS_DUMP_FULL_SECONDS * 2
    assert 24 - kept[0] >= age, "a week is kept"
    assert 24 - kept[0] <= age + 4


async def test_a_full_dump_comes_after_many_increments(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lakebed.refs.automatic_dumps.REFS_DUMP_INCREMENTS_MAX", 3)
    assert REFS_DUMP_INCREMENTS_MAX > 3
    repo = await world.create_repository()
    bases = []
    for _ in range(9):
        await move(world, repo)
        await world.automatic_dumps.dump(repo)
        bases.append((await newest(world, repo)).head.base)
    assert bases == [1, 1, 1, 1, 5, 5, 5, 5, 9]


async def test_a_branch_on_a_commit_that_the_walk_does_not_reach_makes_a_full_dump(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lakebed.refs.automatic_dumps.REFS_DUMP_WALK_MAX", 5)
    repo = await world.create_repository()
    root = (await world.branches.get(repo, MAIN)).value.commit_id
    for _ in range(10):
        await move(world, repo)
    await world.automatic_dumps.dump(repo)
    await world.branches.create(repo, BranchName("old"), root)
    await world.automatic_dumps.dump(repo)
    dump = await newest(world, repo)
    assert (dump.head.number, dump.head.base) == (2, 2)


@pytest.mark.parametrize("lost", ["record", "reply", "crash"])
async def test_a_dump_goes_on_from_a_file_that_the_record_ignores(world: World, lost: str) -> None:
    repo = await world.create_repository()
    await world.automatic_dumps.dump(repo)
    before = await world.memory.get(repo.partition, DUMP_CHAIN_KEY)
    assert before is not None
    await move(world, repo)

    async def spoil(call: Call) -> Fault | None:
        if call.key == DUMP_CHAIN_KEY:
            return Fault.LOST_REQUEST if lost == "reply" else Fault.CRASH_BEFORE
        return None

    world.kv.hook = spoil if lost != "record" else None
    try:
        await world.automatic_dumps.dump(repo)
    except Crash:
        world.restart()
    world.kv.hook = None
    if lost == "record":
        item = await world.memory.get(repo.partition, DUMP_CHAIN_KEY)
        assert item is not None
        await world.memory.swap(repo.partition, DUMP_CHAIN_KEY, before.value, expected=item.version)
    assert await world.automatic_dumps.dump(repo) is None, "the file says the same"
    item = await world.memory.get(repo.partition, DUMP_CHAIN_KEY)
    assert item is not None
    assert decode_dump_chain(item.value).number == 2, "and the record now knows it"
    await move(world, repo)
    await world.automatic_dumps.dump(repo)
    dump = await newest(world, repo)
    assert (dump.head.number, dump.head.base) == (3, 1)
    commits = [c async for page in world.commits.scan(repo) for c in page]
    assert await held(dump) == ancestors(commits, dump.heads.commits)


async def test_two_servers_at_once_write_two_dumps_and_lose_none(world: World) -> None:
    repo = await world.create_repository()
    await world.automatic_dumps.dump(repo)
    await move(world, repo)
    store = await world.open_store(repo.namespace)
    other = World.__new__(World)
    other.__dict__ |= {"clock": world.clock, "memory": world.memory, "whole": world.whole, "seed": 77}
    other.restart()
    raced = False

    async def race(call: Call) -> Fault | None:
        nonlocal raced
        if call.method == "put" and not raced:
            raced = True
            await move(other, repo)
            assert await other.automatic_dumps.dump(repo) is not None
        return None

    world.store_hook = race
    assert await world.automatic_dumps.dump(repo) is None, "the other's dump has these refs"
    assert [name.number for name in await list_dumps(store, repo.uid)] == [1, 2]
    assert (await newest(world, repo)).heads == await world.dumper.heads(repo)


async def test_a_dump_before_that_cannot_be_read_makes_a_full_one(world: World) -> None:
    repo = await world.create_repository()
    await world.automatic_dumps.dump(repo)
    await world.whole.delete([f"bucket/lake/{DumpName(repo.uid, 0, 1).key}"])
    await move(world, repo)
    await world.automatic_dumps.dump(repo)
    dump = await newest(world, repo)
    assert (dump.head.number, dump.head.base) == (2, 2)
    with pytest.raises(CorruptError, match="missing"):
        await open_dump(await world.open_store(repo.namespace), DumpName(repo.uid, 0, 1), InlineWorkers())


async def test_an_empty_bare_repository_is_not_dumped(world: World) -> None:
    assert await world.automatic_dumps.dump(await world.create_repository(bare=True)) is None


@settings(max_examples=30)
@given(st.data())
async def test_new_commits_are_what_a_set_difference_says(data: st.DataObject) -> None:
    world = World()
    repo = await world.create_repository(bare=True)
    made: list[Commit] = [await world.commit(repo)]
    for number in range(data.draw(st.integers(0, 15))):
        parents = data.draw(st.lists(st.sampled_from(made), min_size=1, max_size=2, unique_by=lambda c: c.id))
        made.append(await world.commit(repo, *(c.id for c in parents), message=str(number)))
    some = st.lists(st.sampled_from([c.id for c in made]), max_size=4)
    old, new = data.draw(some), data.draw(some)
    found = await commits_since(world.commits, repo, old, new, limit=1000)
    assert found is not None
    assert len(found) == len(set(found))
    assert set(found) == ancestors(made, new) - ancestors(made, old)


def test_the_bytes_of_the_record_never_change() -> None:
    golden = Path(__file__).parents[2] / "golden" / "records" / "dumps" / "chain.v1.hex"
    data = bytes.fromhex(golden.read_text())
    assert encode_dump_chain(CHAIN) == data
    assert decode_dump_chain(data) == CHAIN
    with pytest.raises(CorruptError) as caught:
        decode_dump_chain(b"\x02" + data[1:])
    assert caught.value.kind is ErrorKind.NEWER_VERSION
