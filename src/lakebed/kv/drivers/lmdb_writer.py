"""Group commit: one thread that turns everything waiting into one LMDB transaction and one sync.

What arrives while a transaction is being synced goes into the next one, so the
rate of writes is not bound to the rate of syncs. Requests of a batch are decided
one after another inside the shared transaction; each learns its own outcome, and
none learns it before the commit: a conflict, too, may have been decided against
a neighbour's write.

A caller that is cancelled stops waiting; its request may still be written, as
with any write whose answer was lost.
"""

import asyncio
import threading
from contextlib import suppress
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

from lakebed.errors import ConflictError, ErrorKind, UnavailableError
from lakebed.kv.drivers.lmdb_env import Environment, Step
from lakebed.kv.drivers.lmdb_writes import Request
from lakebed.limits import BATCH_BYTES_MAX, BATCH_ROWS_MAX

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Waiting:
    request: Request[Any]
    answer: asyncio.Future[Any]


class _Stop:
    """What the queue holds last."""


class Writer:
    """The only place of this process that writes to `environment`. Call `start` first."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self._queue: SimpleQueue[_Waiting | _Stop] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="lakebed-lmdb-writer", daemon=True)
        self._stopping = False
        self.commits_count = 0
        """Transactions so far; far fewer than requests when many callers write at once."""

    def start(self) -> None:
        self._thread.start()

    async def submit(self, request: Request[T]) -> T:
        """Return what `request` returned, once it is on the disk."""
        self._environment.check_usable()
        if self._stopping:
            raise UnavailableError(ErrorKind.STORE_UNAVAILABLE, "the store is being closed")
        answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._queue.put(_Waiting(request, answer))
        return await answer

    def stop(self) -> None:
        """Return when everything submitted so far has been answered and the thread has ended."""
        if self._stopping:
            return
        self._stopping = True
        self._queue.put(_Stop())
        self._thread.join()

    def _run(self) -> None:
        going = True
        while going:
            batch, going = self._take_batch()
            if batch:
                _deliver(batch, self._commit(batch))

    def _take_batch(self) -> tuple[list[_Waiting], bool]:
        """Return what waits, up to the limits of a batch, and whether there will be more after it."""
        batch: list[_Waiting] = []
        rows = size = 0
        waiting = self._queue.get()
        while not isinstance(waiting, _Stop):
            if not waiting.answer.cancelled():
                batch.append(waiting)
                rows += waiting.request.rows_count
                size += waiting.request.bytes_count
            if rows >= BATCH_ROWS_MAX or size >= BATCH_BYTES_MAX:
                return batch, True
            try:
                waiting = self._queue.get_nowait()
            except Empty:
                return batch, True
        return batch, False

    def _commit(self, batch: list[_Waiting]) -> list[Any]:
        """Return the outcome of each request: its result, or the exception to raise."""
        requests = [waiting.request for waiting in batch]
        try:
            self._environment.clear_stale_readers()
            outcomes = self._environment.write(lambda step: [_outcome(each, step) for each in requests])
        except BaseException as error:  # noqa: BLE001  the outermost loop of a thread: callers must hear of it
            return [error] * len(batch)
        self.commits_count += 1
        return outcomes


def _outcome(request: Request[T], step: Step) -> T | ConflictError:
    try:
        return request.apply(step)
    except ConflictError as error:
        return error


def _deliver(batch: list[_Waiting], outcomes: list[Any]) -> None:
    by_loop: dict[asyncio.AbstractEventLoop, list[tuple[asyncio.Future[Any], Any]]] = {}
    for waiting, outcome in zip(batch, outcomes, strict=True):
        by_loop.setdefault(waiting.answer.get_loop(), []).append((waiting.answer, outcome))
    for loop, answers in by_loop.items():
        # A loop that has been closed has nobody left who waits.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(_answer, answers)


def _answer(answers: list[tuple[asyncio.Future[Any], Any]]) -> None:
    for future, outcome in answers:
        if future.done():
            continue
        if isinstance(outcome, BaseException):
            future.set_exception(outcome)
        else:
            future.set_result(outcome)
