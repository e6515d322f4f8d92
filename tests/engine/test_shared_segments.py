"""One segment object of several branches: it stays while any of them refers to it, whatever became of the others."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from lakebed.env.clock import SECOND, Instant
from lakebed.errors import ErrorKind, UnavailableError
from lakebed.kv.drivers.memory import MemoryKV
from lakebed.model.segments import SEGMENTS_FOLDER
from lakebed.refs.keys import branch_key
from lakebed.staging.appending import SegmentUse
from lakebed.testing.lake import Lake, open_lake

HOUR = 3600


class Jumping:
    """A clock that goes where it is told."""

    def __init__(self) -> None:
        self.at = 10**6 * HOUR

    def now(self) -> Instant:
        return Instant(int(self.at * SECOND))

    def monotonic(self) -> float:
        return self.at

    async def sleep(self, seconds: float) -> None:
        self.at += seconds
        await asyncio.sleep(0)


class Refusing(MemoryKV):
    """A store whose swaps of one branch's record fail, as if the process had died before them."""

    refused = b""

    async def swap(self, partition, key, value, **options):
        if self.refused and key == self.refused:
            raise UnavailableError(ErrorKind.STORE_UNAVAILABLE, "gone")
        return await super().swap(partition, key, value, **options)


@pytest.fixture
async def world() -> AsyncIterator[tuple[Lake, Refusing, Jumping]]:
    clock = Jumping()
    kv = Refusing(clock=clock)
    async with open_lake(kv, clock=clock, staging_segments=SegmentUse.ALWAYS) as lake:
        for name in ("one", "two"):
            await lake.catalog.branches.create("lake", name, "main")
        yield lake, kv, clock


async def files(lake: Lake) -> list[str]:
    store = await lake.engine.store_of(lake.repo)
    return [info.key async for infos in store.list(SEGMENTS_FOLDER) for info in infos]


async def test_a_file_that_only_one_of_two_branches_took_stays_while_that_one_refers_to_it(world) -> None:
    lake, kv, clock = world
    kv.refused = branch_key("two")
    one, two = await asyncio.gather(lake.put("one", a="1"), lake.put("two", a="2"), return_exceptions=True)
    assert (one, type(two)) == (None, UnavailableError)
    kv.refused = b""
    assert len(await files(lake)) == 1, "they shared it"

    clock.at += 3 * HOUR
    await lake.cleaner.clean_once()
    assert len(await files(lake)) == 1
    assert await lake.show("one") == {"a": "1"}
    assert await lake.show("two") == {}

    await lake.catalog.branches.reset("lake", "one")
    clock.at += 3 * HOUR
    await lake.cleaner.clean_once()
    await lake.cleaner.clean_once()
    assert await files(lake) == []
    assert await lake.show("one") == {}


async def test_a_file_goes_when_the_last_of_its_branches_has_committed(world) -> None:
    lake, _, clock = world
    await asyncio.gather(lake.put("one", a="1"), lake.put("two", a="2"))
    assert len(await files(lake)) == 1

    for name, left in (("one", 1), ("two", 0)):
        await lake.commit(name)
        clock.at += 3 * HOUR
        await lake.cleaner.clean_once()
        await lake.cleaner.clean_once()
        assert len(await files(lake)) == left
    assert [await lake.show(name) for name in ("one", "two")] == [{"a": "1"}, {"a": "2"}]


async def test_a_file_that_nobody_took_goes(world) -> None:
    lake, kv, clock = world
    kv.refused = branch_key("one")
    with pytest.raises(UnavailableError):
        await lake.put("one", a="1")
    kv.refused = b""
    assert len(await files(lake)) == 1

    clock.at += 3 * HOUR
    await lake.cleaner.clean_once()
    assert await files(lake) == []
