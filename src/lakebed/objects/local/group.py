"""Gather small puts into batches: what arrives while one batch is synced goes into the next.

The asyncio side of `Changes.put_small`. A batch is taken when the event loop has
nothing left to do that might join it: measured, that alone doubles the rate, because
the worker thread then runs without fighting the loop for the interpreter. What is
not synced at all needs no thread.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from lakebed.env.joining import let_join
from lakebed.env.work import Workers
from lakebed.errors import LakebedError
from lakebed.limits import SMALL_BATCH_BYTES_MAX
from lakebed.objects.local.changes import Changes, SmallPut
from lakebed.objects.port import ETag


@dataclass(frozen=True, slots=True)
class _Waiting:
    put: SmallPut
    done: asyncio.Future[ETag]


class GroupCommit:
    """The queue of one open store. Lives on one event loop."""

    def __init__(self, changes: Changes, workers: Workers, after_batch: Callable[[], None]) -> None:
        self._changes = changes
        self._workers = workers
        self._after_batch = after_batch
        self._queue: deque[_Waiting] = deque()
        self._batch: list[_Waiting] = []
        self._running: asyncio.Task[None] | None = None

    async def put(self, put: SmallPut) -> ETag:
        """Return when the object is there and safe."""
        done: asyncio.Future[ETag] = asyncio.get_running_loop().create_future()
        self._queue.append(_Waiting(put, done))
        if self._running is None:
            self._running = asyncio.create_task(self._run())
        return await done

    async def drain(self) -> None:
        """Return when nothing waits any more."""
        while self._running is not None:
            await asyncio.wait([self._running])

    async def _run(self) -> None:
        try:
            await self._pump()
        except BaseException as error:
            # A bug, or the end of the loop: nobody may wait for ever, and somebody must hear of it.
            told = [_fail(item.done, error) for item in [*self._batch, *self._queue]]
            self._queue.clear()
            if not any(told) or isinstance(error, asyncio.CancelledError):
                raise
        finally:
            self._running = None

    async def _pump(self) -> None:
        while self._queue:
            await let_join(lambda: len(self._queue))
            self._batch = self._take()
            puts = [item.put for item in self._batch]
            if self._changes.is_quick(puts):
                outcomes = self._changes.put_small(puts)
            else:
                outcomes = await self._workers.run(self._changes.put_small, puts)
            for item, outcome in zip(self._batch, outcomes, strict=True):
                _settle(item.done, outcome)
            self._batch = []
            self._after_batch()

    def _take(self) -> list[_Waiting]:
        """Take puts of different keys; a second put of a key waits for the first one's outcome."""
        batch: list[_Waiting] = []
        later: list[_Waiting] = []
        keys: set[str] = set()
        size_bytes = 0
        while self._queue and size_bytes < SMALL_BATCH_BYTES_MAX:
            item = self._queue.popleft()
            if item.put.key in keys:
                later.append(item)
                continue
            keys.add(item.put.key)
            size_bytes += len(item.put.data)
            batch.append(item)
        self._queue.extendleft(reversed(later))
        return batch


def _settle(done: asyncio.Future[ETag], outcome: ETag | LakebedError) -> None:
    if isinstance(outcome, LakebedError):
        # One failure may be the answer to many callers; each needs an error of its own to raise.
        error = type(outcome)(outcome.kind, str(outcome))
        error.__cause__ = outcome.__cause__
        _fail(done, error)
    elif not done.done():  # else the caller went away; what was written stays
        done.set_result(outcome)


def _fail(done: asyncio.Future[ETag], error: BaseException) -> bool:
    """Tell a caller; return whether there was one to tell."""
    if done.done():
        return False
    done.set_exception(error)
    return True
