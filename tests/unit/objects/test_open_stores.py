"""Open stores: how many, for how long, and never closed under a call."""

import asyncio
from collections.abc import AsyncIterator, Sequence

import pytest
from tests.unit.compaction.shell import HandClock, settle

from lakebed.errors import ErrorKind, InvalidInputError, UnavailableError
from lakebed.objects.drivers.memory import MemoryObjects
from lakebed.objects.open_stores import OpenStores
from lakebed.objects.port import ByteRange, ObjectStore


class WatchedStore(MemoryObjects):
    """Fails a call that meets a closed store; `gate` holds up gets, `closing` the close."""

    def __init__(self, place: str, world: "World") -> None:
        super().__init__()
        self.place = place
        self._world = world
        self.is_closed = False
        self._calls = 0

    async def get(self, key: str, *, byte_range: ByteRange | None = None) -> bytes:
        assert not self.is_closed, "a call met a closed store"
        self._calls += 1
        await self._world.gate.wait()
        assert not self.is_closed, "closed under a call"
        self._calls -= 1
        return self.place.encode()

    async def stream(self, key: str, *, byte_range: ByteRange | None = None) -> AsyncIterator[bytes]:
        for number in range(3):
            assert not self.is_closed, "closed under a stream"
            yield b"%d" % number

    async def close(self) -> None:
        assert not self._calls, "closed under a call"
        assert not self.is_closed, "closed twice"
        await self._world.closing.wait()
        self.is_closed = True
        self._world.open.remove(self)


class World:
    """Counts the stores that are open."""

    def __init__(self) -> None:
        self.open: list[WatchedStore] = []
        self.opened = 0
        self.most = 0
        self.gate = asyncio.Event()
        self.gate.set()
        self.closing = asyncio.Event()
        self.closing.set()

    def open_place(self, place: str) -> ObjectStore:
        assert place not in {each.place for each in self.open}, "two open stores at one place"
        store = WatchedStore(place, self)
        self.open.append(store)
        self.opened += 1
        self.most = max(self.most, len(self.open))
        return store

    @property
    def places(self) -> Sequence[str]:
        return [each.place for each in self.open]


@pytest.fixture
def world() -> World:
    return World()


def stores_of(world: World, *, open_max: int = 3, clock: HandClock | None = None) -> OpenStores:
    return OpenStores(
        world.open_place,
        clock=clock or HandClock(),
        place_of=lambda namespace: namespace.removesuffix("/"),
        open_max=open_max,
        idle_seconds=10.0,
    )


async def test_no_more_than_the_bound_is_open_and_the_oldest_goes(world: World) -> None:
    stores = stores_of(world)
    handles = [await stores.at(f"p{number}") for number in range(10)]
    assert world.places == []
    for handle in handles:
        await handle.get("k")
    await handles[7].get("k")
    await handles[0].get("k")
    await stores.close()

    assert world.most == 3
    assert world.opened == 11


async def test_two_spellings_of_a_place_share_a_store(world: World) -> None:
    stores = stores_of(world)

    assert await (await stores.at("p")).get("k") == await (await stores.at("p/")).get("k") == b"p"

    assert world.opened == 1
    await stores.close()


async def test_many_places_at_once_wait_for_closings_but_not_for_calls(world: World) -> None:
    stores = stores_of(world)
    world.gate.clear()
    calls = [asyncio.create_task((await stores.at(f"p{number}")).get("k")) for number in range(8)]
    await settle()
    assert len(world.open) == 8, "a call never waits for another one's lease"

    world.gate.set()
    await asyncio.gather(*calls)
    await settle()
    assert len(world.open) == 3
    world.closing.clear()
    late = [asyncio.create_task((await stores.at(f"q{number}")).get("k")) for number in range(3)]
    await settle()
    assert len(world.open) == 3, "what is being closed counts"
    world.closing.set()
    await asyncio.gather(*late)
    await stores.close()


async def test_a_place_is_opened_again_when_its_closing_has_ended(world: World) -> None:
    stores = stores_of(world)
    handle = await stores.at("p")
    await handle.get("k")
    world.closing.clear()
    stores.forget("p")
    again = asyncio.create_task(handle.get("k"))
    await settle()
    assert not again.done()

    world.closing.set()

    assert await again == b"p"
    assert world.opened == 2
    await stores.close()


async def test_a_forgotten_store_closes_when_its_last_call_ends(world: World) -> None:
    stores = stores_of(world)
    handle = await stores.at("p")
    stream = handle.stream("k")
    await anext(stream)

    stores.forget("p/")
    await settle()
    assert world.places == ["p"]
    assert [chunk async for chunk in stream] == [b"1", b"2"]
    await settle()

    assert world.places == []
    stores.forget("p")
    await stores.close()


async def test_a_stream_that_is_left_gives_its_store_back(world: World) -> None:
    stores = stores_of(world)
    async for _ in (await stores.at("p")).stream("k"):
        break
    stores.forget("p")
    await settle()

    assert world.places == []
    await stores.close()


async def test_idle_stores_are_closed_and_used_ones_stay(world: World) -> None:
    clock = HandClock()
    stores = stores_of(world, clock=clock)
    running = asyncio.create_task(stores.run())
    for place in ("idle", "used"):
        await (await stores.at(place)).get("k")
    for _ in range(4):
        await clock.advance(4)
        await (await stores.at("used")).get("k")
    await settle()

    assert world.places == ["used"]
    await clock.advance(30)
    await settle()
    assert world.places == []
    running.cancel()
    await stores.close()


async def test_a_closed_owner_refuses_new_calls(world: World) -> None:
    stores = stores_of(world)
    handle = await stores.at("p")
    await handle.get("k")
    await stores.close()

    assert world.places == []
    with pytest.raises(UnavailableError) as raised:
        await handle.get("k")
    assert raised.value.kind is ErrorKind.STORE_UNAVAILABLE


async def test_a_store_with_another_call_is_not_removed(world: World) -> None:
    stores = stores_of(world)
    handle = await stores.at("p")
    world.gate.clear()
    call = asyncio.create_task(handle.get("k"))
    await settle()

    assert not await handle.remove_if_empty()

    world.gate.set()
    await call
    assert await handle.remove_if_empty()
    await stores.close()


async def test_forgetting_a_place_that_is_not_admitted_is_no_error(world: World) -> None:
    def refused(_namespace: str) -> str:
        raise InvalidInputError(ErrorKind.INVALID_NAMESPACE, "not admitted")

    OpenStores(world.open_place, clock=HandClock(), place_of=refused).forget("p")
