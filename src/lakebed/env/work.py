"""`Workers`: where CPU-heavy block work runs, so that it never sits on the event loop.

Merging, sorting and Parquet release the interpreter lock for most of their
time, so threads are enough; the simulation runs the same calls inline, which
keeps it deterministic.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, Protocol, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class Workers(Protocol):
    """Runs plain functions off the event loop."""

    async def run(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Return `function(*args, **kwargs)`, computed elsewhere."""
        ...


class ThreadWorkers:
    """A pool of threads. Threads start at the first call and end with `close`."""

    def __init__(self, threads: int) -> None:
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="lakebed-work")

    async def run(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._pool, lambda: function(*args, **kwargs))

    def close(self) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)


class InlineWorkers:
    """Runs at once, in the caller: for tests and the simulation."""

    async def run(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        return function(*args, **kwargs)
