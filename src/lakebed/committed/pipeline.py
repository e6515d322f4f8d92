"""Work on the next items while the first one is being used: bounded, and in order."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import TypeVar

A = TypeVar("A")
B = TypeVar("B")


async def in_order(
    items: AsyncGenerator[A, None], work: Callable[[A], Awaitable[B]], *, ahead: int
) -> AsyncGenerator[B, None]:
    """Yield `work(item)` for each item, in the items' order, with up to `ahead` of them under way."""
    under_way: deque[asyncio.Future[B]] = deque()
    try:
        async with aclosing(items):
            async for item in items:
                under_way.append(asyncio.ensure_future(work(item)))
                if len(under_way) >= ahead:
                    yield await under_way.popleft()
        while under_way:
            yield await under_way.popleft()
    finally:
        for task in under_way:
            task.cancel()
        await asyncio.gather(*under_way, return_exceptions=True)
