"""`Supervisor`: keeps a number of worker processes alive, and ends them well.

    start    each worker says that it is ready; one that ends before, by itself, ends the server
    replace  a worker that dies comes back, later each time while they die young
    stop     at SIGTERM or SIGINT nobody listens any more, workers answer what was begun and end;
             who has not ended in time is killed

Workers hear of the supervisor's death by themselves (`server.worker`).
"""

import multiprocessing
import os
import signal
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from typing import Any, Final

from lakebed.env.clock import Clock
from lakebed.errors import ErrorKind, LakebedError, UnavailableError
from lakebed.limits import RESPAWN_SECONDS, RESPAWN_SECONDS_MAX, WORKER_END_SECONDS
from lakebed.server.http.balance import Balance
from lakebed.telemetry.log import get_logger

log = get_logger(__name__)

Report = LakebedError | None
"""What a worker says of its start: that it is ready, or why it is not."""
# How Python ends a process whose main function raises.
_FAILED: Final = 1
Target = Callable[[str, Sequence[socket.socket], Balance, Connection], None]
Beside = Callable[[str, Connection], None]
"""What a process does that serves no requests."""


@dataclass(slots=True)
class _Worker:
    process: SpawnProcess
    reports: Connection
    slot: int
    since: float
    ready: bool = False


class Supervisor:
    """Runs `target` in worker processes until it is told to stop."""

    def __init__(
        self,
        target: Target,
        config: str,
        sockets: Sequence[socket.socket],
        *,
        workers: int,
        seconds: float,
        clock: Clock,
        beside: Beside | None = None,
    ) -> None:
        """Give each of so many workers `config` and the sockets, and at the end `seconds` to finish.

        `beside` runs in one more process, which is kept alive like the workers.
        """
        # A fork would copy the locks of Arrow's and Polars' threads, which ran during set-up, but not the threads.
        self._context = multiprocessing.get_context("spawn")
        self._target = target
        self._beside = beside
        self._waits_beside = beside is not None
        self._config = config
        self._sockets = sockets
        self._count = workers
        self._seconds = seconds
        self._clock = clock
        self._workers: list[_Worker] = []
        self._pause = RESPAWN_SECONDS
        self._spawn_at: list[tuple[float, int]] = []
        """When the place of a worker is taken again, and which."""
        self._balance = Balance.over(workers)
        self._stopping = False
        self._bell, self._ring = os.pipe()

    def run(self) -> None:
        """Serve until a signal.

        Raises:
            LakebedError: a worker could not start, and why.
        """
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._heed)
        try:
            for slot in range(self._count):
                self._spawn(slot)
            while not self._stopping:
                self._step()
        finally:
            self._stop()

    def _heed(self, _number: int, _frame: Any) -> None:
        self._stopping = True
        os.write(self._ring, b"!")

    def _spawn(self, slot: int) -> None:
        reports, said = self._context.Pipe(duplex=False)
        process = self._process(slot, said)
        # Ctrl-C is for the supervisor, which tells its workers; what is ignored now is ignored by them from the start.
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)
        process.start()
        signal.signal(signal.SIGINT, before)
        said.close()
        self._workers.append(_Worker(process, reports, slot, self._clock.monotonic()))

    def _process(self, slot: int, said: Connection) -> SpawnProcess:
        if slot == self._count:
            # The place after the last worker's: it takes no connections.
            return self._context.Process(
                target=self._beside, args=(self._config, said), name="lakebed-beside"
            )
        return self._context.Process(
            target=self._target,
            args=(self._config, self._sockets, self._balance.of(slot), said),
            name=f"lakebed-worker-{slot}",
        )

    def _step(self) -> None:
        """Wait until something happens, and do what follows."""
        now = self._clock.monotonic()
        for due in [each for each in self._spawn_at if each[0] <= now]:
            self._spawn_at.remove(due)
            self._spawn(due[1])
        pending = [each.reports for each in self._workers if not each.ready]
        sentinels = [each.process.sentinel for each in self._workers]
        timeout = max(0.0, min(self._spawn_at)[0] - now) if self._spawn_at else None
        wait([self._bell, *pending, *sentinels], timeout)
        for worker in list(self._workers):
            if not worker.ready:
                self._hear(worker)
            if worker.process.exitcode is not None and not self._stopping:
                self._bury(worker)
        if self._waits_beside and len(self._workers) == self._count and all(w.ready for w in self._workers):
            # Those who wait for the server's first answer do not wait for this.
            self._waits_beside = False
            self._spawn(self._count)

    def _hear(self, worker: _Worker) -> None:
        if not worker.reports.poll():
            return
        try:
            report: Report = worker.reports.recv()
        except EOFError:
            worker.process.join(self._seconds)
            return
        if report is not None:
            raise report
        worker.ready = True
        log.info("worker_ready", pid=worker.process.pid)

    def _bury(self, worker: _Worker) -> None:
        """Plan for a worker to take the place of one that died."""
        self._workers.remove(worker)
        worker.reports.close()
        if not worker.ready and worker.process.exitcode == _FAILED:
            raise UnavailableError(
                ErrorKind.STORE_UNAVAILABLE, "a worker could not start: what it said is above, in the log"
            )
        lived = self._clock.monotonic() - worker.since
        if lived > RESPAWN_SECONDS_MAX:
            self._pause = RESPAWN_SECONDS
        log.error(
            "worker_died", pid=worker.process.pid, exit_code=worker.process.exitcode, lived_seconds=lived
        )
        self._spawn_at.append((self._clock.monotonic() + self._pause, worker.slot))
        self._pause = min(2 * self._pause, RESPAWN_SECONDS_MAX)

    def _stop(self) -> None:
        for listening in self._sockets:
            listening.close()
        for worker in self._workers:
            worker.process.terminate()
        end = self._clock.monotonic() + self._seconds + WORKER_END_SECONDS
        for worker in self._workers:
            worker.process.join(max(0.0, end - self._clock.monotonic()))
            if worker.process.exitcode is None:
                log.error("worker_killed", pid=worker.process.pid)
                worker.process.kill()
                worker.process.join()
