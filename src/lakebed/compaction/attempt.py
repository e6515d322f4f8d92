"""`RunningAttempt`: one job in the hands of a worker, and the end of its lease.

Three tasks: the work; heartbeats; and a watch on the worker's own monotonic clock, which ends the
work when the last heartbeat that arrived is too long ago. A worker that was frozen finds that out
when it wakes up. Until it does, the branch record keeps its result out.
"""

import asyncio
from dataclasses import dataclass, replace
from traceback import format_exception

from lakebed.compaction.jobs import JobRunner, Made
from lakebed.compaction.scheduler import Report, Status
from lakebed.compaction.service import Assignment, CompactionService
from lakebed.env.clock import Clock
from lakebed.errors import ConflictError, ErrorKind, LakebedError, NotFoundError, UnavailableError
from lakebed.telemetry.log import get_logger

log = get_logger(__name__)

# A watch looks at least so often how far the lease reaches: heartbeats move its end.
_WATCH_SECONDS = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How an attempt ended. `report` is None if it is no longer this worker's to report on."""

    report: Report | None
    made: Made | None = None


class RunningAttempt:
    """Runs one assignment."""

    def __init__(
        self,
        assignment: Assignment,
        *,
        worker: str,
        service: CompactionService,
        runner: JobRunner,
        clock: Clock,
    ) -> None:
        self.assignment = assignment
        self._worker = worker
        self._service = service
        self._runner = runner
        self._clock = clock
        self._made: Made | None = None
        # The lease began before the answer arrived: no later than now, and mostly a moment ago.
        self._renewed = clock.monotonic()

    async def run(self) -> Ended:
        """Work until it is done, fails, or the lease is lost; stopped from outside, give the job back."""
        work = asyncio.create_task(self._work())
        beats = asyncio.create_task(self._beat())
        watch = asyncio.create_task(self._watch())
        try:
            await asyncio.wait({work, watch}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (work, beats, watch):
                task.cancel()
            await asyncio.wait({work, beats, watch})
        if work.cancelled():
            return Ended(report=None)
        return self._ended(work)

    def _ended(self, work: "asyncio.Task[Status]") -> Ended:
        error = work.exception()
        if error is None:
            return Ended(report=self._done(work.result()), made=self._made)
        job = self.assignment.job
        if _has_moved(error):
            return Ended(report=self._report(Status.RELEASED, str(error)))
        if isinstance(error, UnavailableError):
            return Ended(report=self._report(Status.POSTPONED, str(error)))
        if not isinstance(error, LakebedError):
            log.error("compaction_crashed", job=job.id, traceback="".join(format_exception(error)))
        return Ended(report=self._report(Status.FAILED, f"{type(error).__name__}: {error}"))

    def _done(self, status: Status) -> Report:
        made = self._made
        assert made is not None, "nothing is installed before it is made"
        flushed = self._service.flushed_bytes(made.fresh)
        return replace(self._report(status), flushed_bytes=flushed, written_bytes=made.bytes_written)

    def _report(self, status: Status, error: str = "") -> Report:
        job, token = self.assignment.attempt
        return Report(job=job, token=token, status=status, error=error)

    async def _work(self) -> Status:
        repo, job = self.assignment.repo, self.assignment.job
        self._made = await self._runner.run(repo, job)
        return await self._service.install(repo, job, self._made.output)

    async def _beat(self) -> None:
        repo, (job, token) = self.assignment.repo, self.assignment.attempt
        while True:
            sent = self._clock.monotonic()
            try:
                await self._service.jobs.beat(repo, job=job, token=token, worker=self._worker)
            except UnavailableError as error:
                log.warning("heartbeat_failed", job=job, error=str(error))
            else:
                self._renewed = sent
            await self._clock.sleep(self._service.limits.heartbeat_seconds)

    async def _watch(self) -> None:
        """Return when the lease has run out."""
        seconds = self._service.limits.lease_seconds
        while (left := self._renewed + seconds - self._clock.monotonic()) > 0:
            await self._clock.sleep(min(left, _WATCH_SECONDS))


def _has_moved(error: BaseException) -> bool:
    """Return whether there is nothing wrong, but somebody else took care of the layers."""
    return isinstance(error, NotFoundError) or (
        isinstance(error, ConflictError) and error.kind is ErrorKind.VERSION_CHANGED
    )
