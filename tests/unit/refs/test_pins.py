"""What a pinned reader may be going through stays; nobody waits for a reader that is gone."""

from dataclasses import replace

import pytest

from lakebed.env.clock import Instant
from lakebed.env.ids import SeededIds
from lakebed.errors import UnavailableError
from lakebed.format.pins import decode_pin, encode_pin
from lakebed.format.rows import OPEN_KEY, OPEN_VALUE
from lakebed.kv.drivers.memory import MemoryKV
from lakebed.kv.port import Expect, Row
from lakebed.kv.wrappers.faults import Call, Fault, FaultyKV, Operation, Refused
from lakebed.limits import GRACE_SECONDS, PIN_SECONDS, RETIRED_LISTED
from lakebed.model.ids import BranchName, MetarangeId, Nonce, StagingToken
from lakebed.model.layers import RetiredLayer, RetiredTree, SegmentLayer, TokenLayer
from lakebed.model.pins import Pin
from lakebed.model.repository import Repository
from lakebed.refs.keys import PINS_PREFIX, pin_key
from lakebed.refs.pins import Held, Pins, oldest_pin
from lakebed.refs.scans import scan_records
from tests.unit.leaping import LeapClock
from tests.unit.refs.world import World

MAIN = BranchName("main")
GOLDEN = "01" + "94a170a67265706f727405" + "07"


@pytest.fixture
async def repo(world: World) -> Repository:
    return await world.create_repository()


async def retire(world: World, repo: Repository, *names: str) -> None:
    for name in names:
        await world.kv.set_rows(name, [Row(OPEN_KEY, OPEN_VALUE)])
    found = await world.branches.get(repo, MAIN)
    layers = [
        RetiredLayer(layer=TokenLayer(token=StagingToken(name), seq=1), at=world.clock.now())
        for name in names
    ]
    await world.branches.swap(repo, found, replace(found.value, retired=tuple(layers)))


async def pin(world: World, repo: Repository, *, renewed_at: Instant | None = None) -> None:
    now = world.clock.now()
    record = Pin(id=Nonce("p"), reason="export", made_at=now, renewed_at=renewed_at or now)
    item = await world.kv.get(repo.partition, pin_key(record.id))
    if item is not None:
        record = replace(decode_pin(item.value), renewed_at=now)
    await world.kv.swap(repo.partition, pin_key(record.id), encode_pin(record), expected=Expect.ANY)


async def left(world: World, *names: str) -> list[str]:
    return [name for name in names if await world.kv.get(name, OPEN_KEY) is not None]


def test_version_1_bytes_of_a_pin_never_change() -> None:
    value = Pin(id=Nonce("p"), reason="report", made_at=Instant(5), renewed_at=Instant(7))
    assert encode_pin(value).hex() == GOLDEN
    assert decode_pin(bytes.fromhex(GOLDEN)) == value


@pytest.mark.parametrize("count", [1, RETIRED_LISTED + 3])
async def test_what_is_retired_under_a_pin_stays_until_the_pin_is_gone(
    world: World, repo: Repository, count: int
) -> None:
    names = [f"lake-main:{n:02}" for n in range(count)]
    await pin(world, repo)
    world.clock.advance(1)
    await retire(world, repo, *names)
    world.clock.advance(2 * GRACE_SECONDS)
    await pin(world, repo)

    await world.cleaner.clean_once()
    assert await left(world, *names) == names

    await world.kv.delete_rows(repo.partition, [pin_key(Nonce("p"))])
    await world.cleaner.clean_once()
    assert await left(world, *names) == []


async def test_a_segment_and_a_tree_retired_under_a_pin_stay_listed(world: World, repo: Repository) -> None:
    """They have no other record, and that one keeps their files."""
    await pin(world, repo)
    world.clock.advance(1)
    at, found = world.clock.now(), await world.branches.get(repo, MAIN)
    segment = SegmentLayer(
        id="00000001-n",
        dataset="i",
        seq=1,
        min_key="a",
        max_key="b",
        entries=1,
        tombstones=0,
        bytes=1,
        level=0,
    )
    retired = replace(
        found.value,
        retired=(RetiredLayer(layer=segment, at=at),),
        retired_trees=(RetiredTree(tree=MetarangeId("t"), at=at),),
    )
    await world.branches.swap(repo, found, retired)
    world.clock.advance(2 * GRACE_SECONDS)
    await pin(world, repo)

    await world.cleaner.clean_once()
    kept = (await world.branches.get(repo, MAIN)).value
    assert (len(kept.retired), len(kept.retired_trees)) == (1, 1)

    world.clock.advance(PIN_SECONDS + 1)
    await world.cleaner.clean_once()
    freed = (await world.branches.get(repo, MAIN)).value
    assert (freed.retired, freed.retired_trees) == ((), ())


async def test_what_was_retired_before_the_pin_goes_in_its_time(world: World, repo: Repository) -> None:
    await retire(world, repo, "lake-main:t")
    world.clock.advance(1)
    await pin(world, repo)
    world.clock.advance(2 * GRACE_SECONDS)
    await pin(world, repo)

    await world.cleaner.clean_once()
    assert await left(world, "lake-main:t") == []


async def test_a_pin_that_nobody_renews_runs_out_and_is_removed(world: World, repo: Repository) -> None:
    await pin(world, repo)
    world.clock.advance(PIN_SECONDS - 1)
    assert await oldest_pin(world.kv, repo.partition, world.clock.now()) is not None
    world.clock.advance(2)
    assert await oldest_pin(world.kv, repo.partition, world.clock.now()) is None
    assert await world.kv.get(repo.partition, pin_key(Nonce("p"))) is None


async def test_a_pin_stands_while_it_is_held_and_no_longer(world: World, repo: Repository) -> None:
    pins = Pins(world.kv, clock=world.clock, ids=world.ids)
    async with pins.held(repo, "export") as held:
        held.require()
        assert await oldest_pin(world.kv, repo.partition, world.clock.now()) == held.pin.made_at
    assert await oldest_pin(world.kv, repo.partition, world.clock.now()) is None


async def test_a_reader_that_could_not_renew_its_pin_in_time_is_told_to_stop(world: World) -> None:
    now = world.clock.now()
    held = Held(world.clock, Pin(id=Nonce("p"), reason="export", made_at=now, renewed_at=now))
    held.require()
    world.clock.advance(PIN_SECONDS)

    with pytest.raises(UnavailableError, match="start it again"):
        held.require()


async def test_a_renewal_that_comes_too_late_does_not_bring_back_what_went_meanwhile(world: World) -> None:
    now = world.clock.now()
    pin = Pin(id=Nonce("p"), reason="export", made_at=now, renewed_at=now)
    held = Held(world.clock, pin)
    world.clock.advance(PIN_SECONDS - 1)
    begun = world.clock.monotonic()
    world.clock.advance(1)
    held.renewed(pin, begun)

    with pytest.raises(UnavailableError, match="start it again"):
        held.require()


def refuse_swaps(call: Call) -> Fault | None:
    return Refused() if call.operation is Operation.SWAP else None


async def test_a_held_pin_is_renewed_for_as_long_as_the_scan_takes(repo: Repository) -> None:
    clock = LeapClock()
    kv = MemoryKV(clock=clock)
    async with Pins(kv, clock=clock, ids=SeededIds(1)).held(repo, "export") as held:
        made = held.pin.made_at
        await clock.advance(1)
        for _ in range(20):
            await clock.leap(PIN_SECONDS / 2, steps=1)
            held.require()
            assert await oldest_pin(kv, repo.partition, clock.now()) == made
    await clock.leap(PIN_SECONDS / 2, steps=2)
    assert await pins_left(kv, repo) == []


async def test_a_database_that_is_away_for_one_renewal_does_no_harm_and_for_three_is_told(
    repo: Repository,
) -> None:
    clock = LeapClock()
    kv = FaultyKV(MemoryKV(clock=clock), plan=lambda _call: None, clock=clock)
    async with Pins(kv, clock=clock, ids=SeededIds(1)).held(repo, "export") as held:
        await clock.advance(1)
        kv.plan = refuse_swaps
        await clock.leap(PIN_SECONDS / 3, steps=2)
        held.require()
        kv.plan = lambda _call: None
        await clock.leap(PIN_SECONDS / 4, steps=1)
        held.require()
        kv.plan = refuse_swaps
        await clock.leap(PIN_SECONDS / 3, steps=3)
        kv.plan = lambda _call: None
        await clock.leap(PIN_SECONDS / 3, steps=1)
        with pytest.raises(UnavailableError, match="start it again"):
            held.require()


async def pins_left(kv: MemoryKV, repo: Repository) -> list[bytes]:
    return [item.key async for items in scan_records(kv, repo.partition, PINS_PREFIX) for item in items]
