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
from concurrent.futures import BrokenExecutor, Executor, ProcessPoolExecutor, ThreadPoolExecutor
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
    """A pool of helper processes, for work that holds the interpreter lock. They start at the first call.

    Functions and arguments are pickled: module-level functions on plain values, which may run twice. If a helper dies
    (the kernel's OOM killer, an operator), the executor gives up on every job in its pool. Then:

        1. the pool is replaced: the next job starts a new one
        2. each job that was in it runs once more, alone in a process of its own, one after the other. So a job that
           kills its helper harms no other job twice
        3. a job whose second helper dies too raises what `died` makes of the reason
    """

    def __init__(
        self,
        processes: int,
        *,
        died: Callable[[str], Exception],
        open_pool: Callable[[int], Executor] | None = None,
    ) -> None:
        self._processes = processes
        self._died = died
        self._open_pool = open_pool or _spawning_pool
        self._pool: Executor | None = None
        self._second: Executor | None = None
        self._alone = asyncio.Lock()
        self._closed = False

    async def run(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        job = partial(function, *args, **kwargs)
        if self._pool is None:
            self._require_open()
            self._pool = self._open_pool(self._processes)
        pool = self._pool
        try:
            return await asyncio.wrap_future(pool.submit(job))
        except BrokenExecutor:
            if self._pool is pool:
                self._pool = None
            pool.shutdown(wait=False)
        async with self._alone:
            return await self._run_alone(job)

    async def _run_alone(self, job: Callable[[], T]) -> T:
        self._require_open()
        pool = self._second = self._open_pool(1)
        try:
            return await asyncio.wrap_future(pool.submit(job))
        except BrokenExecutor as error:
            raise self._died(f"a helper process died twice while it did the same work: {error}") from error
        finally:
            self._second = None
            pool.shutdown(wait=False, cancel_futures=True)

    def _require_open(self) -> None:
        if self._closed:
            raise self._died("this server stops: it starts no helper processes any more")

    def close(self) -> None:
        """End the helpers; jobs that wait for one are cancelled."""
        self._closed = True
        pools, self._pool = (self._pool, self._second), None
        for pool in pools:
            if pool is not None:
                pool.shutdown(wait=True, cancel_futures=True)


def _spawning_pool(processes: int) -> Executor:
    # Not forked: a fork would copy threads' locks and open databases.
    context = multiprocessing.get_context("spawn")
    return ProcessPoolExecutor(processes, mp_context=context, initializer=_end_with_parent)


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
