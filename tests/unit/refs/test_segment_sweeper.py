"""Segments that nobody refers to are deleted, and no other."""

from dataclasses import replace

import pytest

from lakebed.env.clock import Instant
from lakebed.format.records import encode_stash
from lakebed.kv.port import Expect
from lakebed.limits import GRACE_SECONDS
from lakebed.model.branch import Branch, Slot
from lakebed.model.ids import BranchName, CommitId, Nonce
from lakebed.model.layers import RetiredLayer, SegmentLayer
from lakebed.model.repository import Repository
from lakebed.model.segments import SegmentName, era_at, segment_key
from lakebed.model.stash import Stash, StashState
from lakebed.refs.keys import stash_key
from lakebed.refs.segment_sweeper import SegmentSweeper
from tests.unit.refs.world import World

MAIN, DEV = BranchName("main"), BranchName("dev")
HOUR = 3600


def layer(segment_id: str, *, seq: int = 1) -> SegmentLayer:
    return SegmentLayer(
        id=segment_id,
        dataset="i",
        seq=seq,
        min_key="a",
        max_key="z",
        entries=1,
        tombstones=0,
        bytes=1,
        level=0,
    )


class Sweep:
    """A repository with segments, and a sweeper."""

    def __init__(self, world: World, repo: Repository) -> None:
        self.world = world
        self.repo = repo
        self.sweeper = SegmentSweeper(world.kv, open_store=world.open_store, clock=world.clock, ids=world.ids)

    def name(self, owner: str = "abc", *, hours_ago: int = 2, token: int = 0) -> str:
        return str(SegmentName(era_at(self.world.clock.now()) - hours_ago, Nonce(owner), token))

    async def put(self, *names: str) -> None:
        store = await self.world.open_store(self.repo.namespace)
        for name in names:
            await store.put(segment_key(name), b"segment")

    async def left(self) -> set[str]:
        store = await self.world.open_store(self.repo.namespace)
        return {info.key async for infos in store.list("_lakebed/segments/") for info in infos}

    async def branch(self, name: BranchName = MAIN) -> Branch:
        return (await self.world.branches.get(self.repo, name)).value

    async def change(self, **fields) -> None:
        found = await self.world.branches.get(self.repo, MAIN)
        await self.world.branches.swap(self.repo, found, replace(found.value, **fields))

    async def sweep(self) -> int:
        return await self.sweeper.sweep(self.repo, self.world.clock.now())


@pytest.fixture
async def it(world: World) -> Sweep:
    world.clock.advance(10 * HOUR)
    return Sweep(world, await world.create_repository())


async def test_an_old_segment_of_nobody_goes_and_a_young_one_stays(it: Sweep) -> None:
    old, young, now = it.name(), it.name(hours_ago=1), it.name(hours_ago=0)
    await it.put(old, young, now)

    assert await it.sweep() == 1
    assert await it.left() == {segment_key(young), segment_key(now)}
    assert (await it.branch()).min_era == era_at(it.world.clock.now()) - 1


async def test_nothing_is_changed_where_there_is_no_orphan(it: Sweep) -> None:
    name = it.name()
    await it.put(name, it.name("young", hours_ago=0))
    await it.change(sealed=(layer(name),), next_seq=2)
    before = await it.world.branches.get(it.repo, MAIN)

    assert await it.sweep() == 0
    assert await it.world.branches.get(it.repo, MAIN) == before


@pytest.mark.parametrize("where", ["sealed", "retired", "deleted", "stash"])
async def test_whatever_a_record_refers_to_stays(it: Sweep, where: str) -> None:
    name, orphan = it.name(), it.name("orphan")
    await it.put(name, orphan)
    match where:
        case "sealed":
            await it.change(sealed=(layer(name),), next_seq=2)
        case "retired":
            await it.change(retired=(RetiredLayer(layer=layer(name), at=Instant(1)),))
        case "deleted":
            created = await it.world.branches.create(it.repo, DEV, (await it.branch()).commit_id)
            full = replace(created.value, sealed=(layer(name),), next_seq=2)
            await it.world.branches.swap(it.repo, created, full)
            await it.world.branches.delete(it.repo, DEV)
        case _:
            stash = Stash(
                id=Nonce("s"),
                branch=MAIN,
                base=CommitId("c"),
                layer=layer(name),
                message="",
                state=StashState.STANDING,
                at=Instant(1),
            )
            await it.world.kv.swap(
                it.repo.partition, stash_key(stash.id), encode_stash(stash), expected=Expect.ABSENT
            )

    assert await it.sweep() == 1
    assert await it.left() == {segment_key(name)}


async def test_the_output_of_a_job_stays_while_its_token_may_install(it: Sweep) -> None:
    incarnation = (await it.branch()).incarnation
    await it.change(last_token=7, fold_slot=Slot(job="j", token=6))
    names = {token: it.name(incarnation, hours_ago=0, token=token) for token in (5, 6, 7, 8)}
    gone = it.name("other", hours_ago=0, token=9)
    await it.put(*names.values(), gone)

    assert await it.sweep() == 3
    assert await it.left() == {segment_key(names[6]), segment_key(names[8])}


async def test_a_segment_that_is_appended_before_the_era_is_raised_stays(it: Sweep) -> None:
    name = it.name()
    await it.put(name)
    references = it.sweeper._references
    calls = []

    async def slow_references(repo):
        found = await references(repo)
        if not calls:
            await it.change(sealed=(layer(name),), next_seq=2)
        calls.append(repo)
        return found

    it.sweeper._references = slow_references

    assert await it.sweep() == 0
    assert await it.left() == {segment_key(name)}


async def test_a_file_with_a_strange_name_is_left_alone(it: Sweep) -> None:
    store = await it.world.open_store(it.repo.namespace)
    await store.put("_lakebed/segments/note.txt", b"")
    await store.put("_lakebed/segments/1-abc.parquet", b"")

    assert await it.sweep() == 0
    assert len(await it.left()) == 2


async def test_the_cleaner_keeps_a_retired_segment_listed_for_the_grace_and_then_sweeps_it(it: Sweep) -> None:
    names = [it.name(f"n{n}") for n in range(40)]
    await it.put(*names)
    at = it.world.clock.now()
    await it.change(retired=tuple(RetiredLayer(layer=layer(name), at=at) for name in names))

    assert (await it.world.cleaner.clean_once()).segments == 0
    assert len((await it.branch()).retired) == 40, "there is no other record of them"

    it.world.clock.advance(GRACE_SECONDS + HOUR)
    assert (await it.world.cleaner.clean_once()).segments == 40
    assert await it.left() == set()
    assert (await it.branch()).retired == ()
