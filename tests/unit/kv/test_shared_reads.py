"""Reads of one record share round trips, and nobody gets an answer older than the question."""

import asyncio

import pytest

from lakebed.errors import ErrorKind, UnavailableError
from lakebed.kv.drivers.memory import MemoryKV
from lakebed.kv.port import Expect, Item
from lakebed.kv.wrappers.shared_reads import SharedReads


class SlowKV(MemoryKV):
    """A store across a network: a read sees the record at one moment, and answers when the test lets it."""

    def __init__(self) -> None:
        super().__init__()
        self.on_their_way: list[asyncio.Event] = []
        self.failing = False

    async def get(self, partition: str, key: bytes) -> Item | None:
        found = await super().get(partition, key)
        answer = asyncio.Event()
        self.on_their_way.append(answer)
        await answer.wait()
        if self.failing:
            raise UnavailableError(ErrorKind.STORE_UNAVAILABLE, "planned")
        return found


@pytest.fixture
def slow() -> SlowKV:
    return SlowKV()


async def settle() -> None:
    """Let every task run until it waits."""
    for _ in range(10):
        await asyncio.sleep(0)


def ask(store: SharedReads, key: bytes = b"k") -> "asyncio.Task[Item | None]":
    return asyncio.create_task(store.get("p", key))


async def test_simultaneous_reads_of_one_record_are_one_round_trip(slow: SlowKV) -> None:
    store = SharedReads(slow)
    await slow.swap("p", b"k", b"v", expected=Expect.ABSENT)
    callers = [ask(store) for _ in range(10)]
    await settle()

    assert len(slow.on_their_way) == 1
    slow.on_their_way[0].set()
    assert {item.value if item else None for item in await asyncio.gather(*callers)} == {b"v"}


async def test_a_caller_that_comes_after_the_read_was_sent_gets_the_next_one(slow: SlowKV) -> None:
    store = SharedReads(slow)
    await slow.swap("p", b"k", b"old", expected=Expect.ABSENT)
    early = ask(store)
    await settle()

    await slow.swap("p", b"k", b"new", expected=Expect.ANY)
    late = [ask(store) for _ in range(5)]
    await settle()
    assert len(slow.on_their_way) == 1, "the next read waits for the one on its way"
    slow.on_their_way[0].set()
    await settle()
    assert early.done()
    assert not any(caller.done() for caller in late), "none of them took the old answer"
    slow.on_their_way[1].set()

    first = await early
    assert first is not None
    assert first.value == b"old"
    assert {item.value if item else None for item in await asyncio.gather(*late)} == {b"new"}
    assert len(slow.on_their_way) == 2


async def test_a_caller_sees_its_own_write(slow: SlowKV) -> None:
    store = SharedReads(slow)
    others = [ask(store) for _ in range(3)]
    await settle()
    await store.swap("p", b"k", b"mine", expected=Expect.ABSENT)
    own = ask(store)
    await settle()
    while not own.done():
        slow.on_their_way[-1].set()
        await settle()

    found = await own
    assert found is not None
    assert found.value == b"mine"
    assert await asyncio.gather(*others) == [None] * 3


async def test_reads_of_different_records_do_not_wait_for_each_other(slow: SlowKV) -> None:
    store = SharedReads(slow)
    callers = [ask(store, b"a"), ask(store, b"b")]
    await settle()

    assert len(slow.on_their_way) == 2
    for answer in slow.on_their_way:
        answer.set()
    await asyncio.gather(*callers)


async def test_a_caller_that_gives_up_takes_nobody_with_it(slow: SlowKV) -> None:
    store = SharedReads(slow)
    await slow.swap("p", b"k", b"v", expected=Expect.ABSENT)
    first, second = ask(store), ask(store)
    await settle()
    first.cancel()
    await settle()

    slow.on_their_way[0].set()

    found = await second
    assert first.cancelled()
    assert found is not None
    assert found.value == b"v"


async def test_a_read_that_fails_fails_its_callers_and_not_the_next(slow: SlowKV) -> None:
    store = SharedReads(slow)
    failing = [ask(store), ask(store)]
    await settle()
    waiting = ask(store)
    await settle()
    slow.failing = True
    slow.on_their_way[0].set()
    outcomes = await asyncio.gather(*failing, return_exceptions=True)
    await settle()
    slow.failing = False
    slow.on_their_way[1].set()

    assert [type(outcome) for outcome in outcomes] == [UnavailableError] * 2
    assert await waiting is None


async def test_nothing_is_kept_once_everybody_has_an_answer(slow: SlowKV) -> None:
    store = SharedReads(slow)
    caller = ask(store)
    await settle()
    slow.on_their_way[0].set()
    await caller

    assert (store._unsent, store._sent) == ({}, {})
