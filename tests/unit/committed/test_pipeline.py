import asyncio
from contextlib import aclosing

import pytest

from lakebed.committed.pipeline import in_order


async def numbers(limit, log=None):
    try:
        for number in range(limit):
            yield number
    finally:
        if log is not None:
            log.append("closed")


async def test_results_come_in_the_order_of_items():
    async def work(number):
        for _ in range(5 - number):
            await asyncio.sleep(0)
        return number * 10

    assert [r async for r in in_order(numbers(5), work, ahead=3)] == [0, 10, 20, 30, 40]


async def test_no_more_than_so_many_are_under_way():
    running, most = 0, 0

    async def work(number):
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1
        return number

    assert len([r async for r in in_order(numbers(20), work, ahead=4)]) == 20
    assert most == 4


async def test_a_failure_ends_the_rest():
    log, cancelled = [], []

    async def work(number):
        if number == 1:
            raise ValueError(number)
        try:
            await asyncio.sleep(3600 if number else 0)
        except asyncio.CancelledError:
            cancelled.append(number)
            raise

    with pytest.raises(ValueError, match="1"):
        async for _ in in_order(numbers(10, log), work, ahead=4):
            pass
    assert cancelled == [2, 3], "and the last never began"
    assert log == ["closed"]


async def test_a_reader_that_stops_early_leaves_nothing_running():
    log, cancelled = [], []

    async def work(number):
        try:
            await asyncio.sleep(3600 if number else 0)
        except asyncio.CancelledError:
            cancelled.append(number)
            raise

    async with aclosing(in_order(numbers(10, log), work, ahead=3)) as results:
        async for _ in results:
            break
    assert cancelled == [1, 2]
    assert log == ["closed"]
