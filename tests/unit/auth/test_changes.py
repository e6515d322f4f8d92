"""Changes are serial, atomic, and done once whatever the network does to them."""

import asyncio
from typing import Any

import pytest

from lakebed.auth.keys import AUTH_PARTITION, GENERATION_KEY
from lakebed.auth.records import AuthRecords, Change, View
from lakebed.env.ids import SeededIds
from lakebed.errors import ConflictError, ErrorKind, UnavailableError
from lakebed.format.auth_records import decode_generation
from lakebed.kv.wrappers.faults import (
    AppliedLate,
    Conflict,
    Fault,
    FaultyKV,
    LostReply,
    LostRequest,
    Operation,
    Refused,
    Script,
)
from lakebed.limits import AUTH_CHANGES_REMEMBERED
from tests.unit.auth.world import Interleaved, World

SET_ROWS, GET_MANY = Operation.SET_ROWS, Operation.GET_MANY


def records_of(world: World, kv: Any = None, *, seed: int = 99) -> AuthRecords:
    return AuthRecords(kv or world.kv, clock=world.clock, ids=SeededIds(seed))


async def add(records: AuthRecords, key: bytes, amount: int = 1) -> int:
    async def work(change: Change) -> int:
        (data,) = await change.get([key])
        total = int(data or b"0") + amount
        change.put(key, str(total).encode())
        return total

    return await records.change(work)


async def stored(world: World, key: bytes) -> bytes | None:
    item = await world.kv.get(AUTH_PARTITION, key)
    return item.value if item is not None else None


async def count(world: World) -> int:
    return decode_generation(await stored(world, GENERATION_KEY) or b"").count


async def test_a_change_reads_and_writes_as_if_alone(world: World) -> None:
    processes = [records_of(world, Interleaved(world.kv, seed), seed=seed) for seed in range(4)]
    await asyncio.gather(*(add(processes[n % 4], b"n") for n in range(100)))
    assert await stored(world, b"n") == b"100"
    assert await count(world) == 100


async def test_a_change_that_puts_nothing_leaves_the_generation_as_it_is(world: World) -> None:
    records = records_of(world)
    await add(records, b"n")

    async def look(change: Change) -> None:
        await change.get([b"n"])

    await records.change(look)
    assert await count(world) == 1


async def test_a_change_begins_again_if_somebody_else_changed_what_it_has_not_even_read(world: World) -> None:
    records, other = records_of(world), records_of(world, seed=7)
    runs = 0

    async def work(change: Change) -> None:
        nonlocal runs
        runs += 1
        await change.get([b"a"])
        if runs == 1:
            await add(other, b"b")
        change.put(b"a", b"x")

    await records.change(work)
    assert runs == 2


async def test_all_reads_of_a_view_belong_to_one_generation(world: World) -> None:
    records, other = records_of(world), records_of(world, seed=7)
    seen = []

    async def work(view: View) -> None:
        (first,) = await view.get([b"a"])
        if not seen:
            seen.append(first)
            await add(other, b"a")
            await add(other, b"b")
        (second,) = await view.get([b"b"])
        seen.append((first, second))

    await records.read(work)
    assert seen[1:] == [(b"1", b"1")]


@pytest.mark.parametrize(
    "faults",
    [
        [LostReply()],
        [LostRequest()],
        [LostRequest(), LostRequest(), LostReply()],
        [LostRequest(), LostReply()],
        [LostRequest(), Refused()],
        [Conflict()],
        [Conflict(), LostReply()],
        [AppliedLate()],
    ],
)
async def test_a_change_is_done_once_whatever_is_lost(world: World, faults: list[Fault | None]) -> None:
    script = Script({SET_ROWS: faults})
    kv = FaultyKV(world.kv, plan=script, clock=world.clock)
    assert await add(records_of(world, kv), b"n") == 1
    assert script.finished
    assert await kv.land() == 0
    assert await stored(world, b"n") == b"1"
    assert await count(world) == 1


async def test_a_change_that_could_not_be_sent_is_not_done(world: World) -> None:
    kv = FaultyKV(world.kv, plan=Script({SET_ROWS: [Refused()]}), clock=world.clock)
    with pytest.raises(UnavailableError) as caught:
        await add(records_of(world, kv), b"n")
    assert caught.value.kind is ErrorKind.STORE_UNAVAILABLE
    assert await stored(world, b"n") is None


async def test_a_change_of_which_nobody_can_say_whether_it_was_done_says_so(world: World) -> None:
    kv = FaultyKV(
        world.kv, plan=Script({SET_ROWS: [LostReply()], GET_MANY: [None, Refused()]}), clock=world.clock
    )
    with pytest.raises(UnavailableError) as caught:
        await add(records_of(world, kv), b"n")
    assert caught.value.kind is ErrorKind.OUTCOME_UNKNOWN


class OthersFirst:
    """A store in which others make changes between a change of ours and our look at what became of it."""

    def __init__(self, world: World, fault: Fault, others: int) -> None:
        self._kv = FaultyKV(world.kv, plan=Script({SET_ROWS: [fault]}), clock=world.clock)
        self._other = records_of(world, seed=7)
        self._others = others
        self._sent = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._kv, name)

    async def set_rows(self, *args: Any) -> None:
        self._sent = True
        await self._kv.set_rows(*args)

    async def get_many(self, lookups: Any) -> Any:
        if self._sent:
            for _ in range(self._others):
                await add(self._other, b"other")
            self._others = 0
        return await self._kv.get_many(lookups)


@pytest.mark.parametrize("others", [1, AUTH_CHANGES_REMEMBERED - 1])
@pytest.mark.parametrize("fault", [LostReply(), LostRequest(), AppliedLate()])
async def test_a_change_finds_out_what_became_of_it_after_many_others(
    world: World, fault: Fault, others: int
) -> None:
    kv = OthersFirst(world, fault, others)
    assert await add(records_of(world, kv), b"n") == 1
    assert await kv.land() == 0
    assert await stored(world, b"n") == b"1"
    assert await stored(world, b"other") == str(others).encode()


async def test_after_more_others_than_are_remembered_nobody_knows(world: World) -> None:
    kv = OthersFirst(world, LostReply(), AUTH_CHANGES_REMEMBERED + 1)
    with pytest.raises(UnavailableError) as caught:
        await add(records_of(world, kv), b"n")
    assert caught.value.kind is ErrorKind.OUTCOME_UNKNOWN
    assert await stored(world, b"n") == b"1"


async def test_too_many_others_in_a_row_is_an_error_and_writes_nothing(world: World) -> None:
    kv = FaultyKV(
        world.kv,
        plan=lambda call: Conflict() if call.operation is SET_ROWS else None,
        clock=world.clock,
    )
    with pytest.raises(ConflictError) as caught:
        await add(records_of(world, kv), b"n")
    assert caught.value.kind is ErrorKind.TOO_MANY_RETRIES
    assert await stored(world, b"n") is None
