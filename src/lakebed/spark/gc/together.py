"""Waiting for many calls of which only some run at a time; the first failure ends all of them."""

import asyncio
from collections.abc import Awaitable, Coroutine, Sequence
from typing import Any, TypeVar

R = TypeVar("R")


async def together(calls: Sequence[Coroutine[Any, Any, R]], at_once: int) -> list[R]:
    """Return what the calls return, in their order."""
    gate = asyncio.Semaphore(at_once)

    async def through(call: Awaitable[R]) -> R:
        async with gate:
            return await call

    tasks = [asyncio.ensure_future(through(call)) for call in calls]
    try:
        return list(await asyncio.gather(*tasks))
    except BaseException:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for call in calls:
            call.close()
        raise
