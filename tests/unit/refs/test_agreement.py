"""Processes of one installation have the same lifetimes, or do not start."""

import asyncio
from typing import Any

import pytest

from lakebed.env.clock import SystemClock
from lakebed.env.ids import SystemIds
from lakebed.errors import ErrorKind, InvalidInputError
from lakebed.kv.drivers.memory import MemoryKV
from lakebed.refs.agreement import Agreement


@pytest.fixture
def kv() -> MemoryKV:
    return MemoryKV(clock=SystemClock())


def process(kv: MemoryKV, **own: float) -> Agreement:
    return Agreement(kv, own, clock=SystemClock(), ids=SystemIds())


async def test_the_first_process_says_what_holds_and_others_of_the_same_join(kv: MemoryKV) -> None:
    await process(kv, grace=900, link=60).join()
    await process(kv, grace=900, link=60).join()
    assert await process(kv).values() == {"grace": 900, "link": 60}


async def test_a_process_with_another_value_does_not_start_and_is_told_both(kv: MemoryKV) -> None:
    await process(kv, grace=900).join()
    with pytest.raises(InvalidInputError, match=r"grace is 3600 here and 900 .*--replace") as caught:
        await process(kv, grace=3600).join()
    assert caught.value.kind is ErrorKind.INVALID_CONFIG
    assert await process(kv).values() == {"grace": 900}


async def test_of_two_that_start_together_with_different_values_one_does_not(kv: MemoryKV) -> None:
    ended: list[Any] = await asyncio.gather(
        process(kv, grace=900).join(), process(kv, grace=1800).join(), return_exceptions=True
    )
    assert [type(each) for each in ended].count(InvalidInputError) == 1


async def test_a_newer_process_adds_what_an_older_one_does_not_know(kv: MemoryKV) -> None:
    await process(kv, grace=900).join()
    await process(kv, grace=900, more=5).join()
    await process(kv, grace=900).join()
    assert await process(kv).values() == {"grace": 900, "more": 5}


async def test_values_are_replaced_and_who_was_forgotten_notices(kv: MemoryKV) -> None:
    forgotten = process(kv, grace=900)
    await forgotten.join()
    await process(kv, grace=1800).replace()
    with pytest.raises(InvalidInputError, match="900 here and 1800"):
        await forgotten.require()
    await process(kv, grace=1800).join()
