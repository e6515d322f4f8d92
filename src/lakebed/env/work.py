"""`Workers`: where CPU-heavy block work runs, so that it never sits on the event loop.

Merging, sorting and Parquet release the interpreter lock for most of their
time, so threads are enough; the simulation runs the same calls inline, which
keeps it deterministic.
"""

import asyncio
import multiprocessing
import os
import threading
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial
from multiprocessing.connection import wait
from typing import ParamSpec, Protocol, TypeVar

from lakebed.env.priority import be_nice

P = ParamSpec("P")
T = TypeVar("T")


class Workers(Protocol):
    """Runs plain functions off the event loop."""

    async def run(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Return `function(*args, **kwargs)`, computed elsewhere."""
        ...


class ThreadWorkers:
    """A pool of threads. Threads start at the first call and end with `close`.

    With `nice`, the system lets them go only when the event loop has nothing to do: a
    long merge then costs those who wait for a reply little.
    """

    def __init__(self, threads: int, *, nice: int = 0) -> None:
        self._pool = ThreadPoolExecutor(
            threads, thread_name_prefix="lakebed-work", initializer=partial(be_nice, nice)
        )

    async def run(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._pool, lambda: function(*args, **kwargs))

    def close(self) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)


class ProcessWorkers:
    """A pool of processes, for work that holds the interpreter lock. They start at the first call.

    Functions and arguments are pickled: module-level functions on plain values.
    """

    def __init__(self, processes: int) -> None:
        self._processes = processes
        self._pool: ProcessPoolExecutor | None = None

    async def run(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        if self._pool is None:
            # Not forked: a fork would copy threads' locks and open databases.
            context = multiprocessing.get_context("spawn")
            self._pool = ProcessPoolExecutor(
                self._processes, mp_context=context, initializer=_end_with_parent
            )
        return await asyncio.get_running_loop().run_in_executor(
            self._pool, partial(function, *args, **kwargs)
        )

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)


def _end_with_parent() -> None:
    """Let this process end when the one that started it is gone, however it went."""
    parent = multiprocessing.parent_process()
    assert parent is not None, "a worker was started by somebody"

    def watch() -> None:
        wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=watch, name="lakebed-parent", daemon=True).start()


class InlineWorkers:
    """Runs at once, in the caller: for tests and the simulation."""

    async def run(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        return function(*args, **kwargs)
