"""`CompactionWorker`: asks the service for jobs, does them, and says how they ended.

    poll     with free places and reports; the service answers with jobs, and with attempts to stop
    work     each job in a task of its own, with heartbeats
    rest     a repository whose stores fail gets no more of them for a while, which doubles until a job is done
    stop     running jobs are given back at once, by one last poll

A report that does not arrive is sent again with the next poll; twice is once.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from lakebed.compaction.attempt import Ended, RunningAttempt
from lakebed.compaction.jobs import JobRunner
from lakebed.compaction.meters import CompactionMeters
from lakebed.compaction.scheduler import Report, Status
from lakebed.compaction.service import Assignment, CompactionService
from lakebed.compaction.store import Attempt
from lakebed.env.clock import Clock
from lakebed.env.ids import IdSource
from lakebed.errors import LakebedError
from lakebed.limits import (
    COMPACTION_IDLE_SECONDS_MAX,
    COMPACTION_IDLE_SHARE,
    COMPACTION_POLL_SECONDS,
    COMPACTION_POLL_SHARE,
    COMPACTION_REST_SECONDS,
    COMPACTION_REST_SECONDS_MAX,
)
from lakebed.model.ids import RepoUid
from lakebed.telemetry.log import get_logger

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class _Running:
    assignment: Assignment
    task: "asyncio.Task[Ended]"
    since: float


@dataclass(frozen=True, slots=True)
class _Rest:
    seconds: float
    until: float


class CompactionWorker:
    """Works until it is told to stop."""

    def __init__(
        self,
        service: CompactionService,
        runner: JobRunner,
        *,
        places: int,
        clock: Clock,
        ids: IdSource,
        meters: CompactionMeters,
    ) -> None:
        """Do up to `places` jobs at a time."""
        self._service = service
        self._runner = runner
        self._places = places
        self._clock = clock
        self._ids = ids
        self._meters = meters
        self._name = ids.token()
        self._running: dict[Attempt, _Running] = {}
        self._reports: dict[RepoUid, list[Report]] = {}
        self._rests: dict[RepoUid, _Rest] = {}
        self._wake = asyncio.Event()
        self._stopping = False
        self._layers = 0
        self._layers_changed = True

    def stop(self) -> None:
        """Let `run` end soon."""
        self._stopping = True
        self._wake.set()

    async def run(self) -> None:
        """Poll and work until `stop`; then give back what is not done."""
        try:
            while not self._stopping:
                begun = self._clock.monotonic()
                # Before the round: a place that becomes free during it was not free when it asked.
                self._wake.clear()
                await self.round()
                took = self._clock.monotonic() - begun
                await self._pause(self.poll_seconds(took))
        finally:
            await self._give_back()

    def poll_seconds(self, took: float) -> float:
        """Return how long to wait after a poll that took so long: longer where there has been nothing to do."""
        if self._running or self._layers_changed:
            return max(COMPACTION_POLL_SECONDS, COMPACTION_POLL_SHARE * took)
        return max(COMPACTION_POLL_SECONDS, min(COMPACTION_IDLE_SHARE * took, COMPACTION_IDLE_SECONDS_MAX))

    async def round(self) -> None:
        """Poll once, stop what was lost, and begin what was assigned."""
        sent = {uid: list(reports) for uid, reports in self._reports.items()}
        running: dict[RepoUid, set[Attempt]] = {}
        for attempt, each in self._running.items():
            running.setdefault(each.assignment.repo.uid, set()).add(attempt)
        free = 0 if self._stopping else self._places - len(self._running)
        now = self._clock.monotonic()
        resting = {uid for uid, rest in self._rests.items() if rest.until > now}
        try:
            answer = await self._service.poll(
                self._name, free=free, running=running, reports=sent, resting=resting
            )
        except LakebedError as error:
            log.warning("compaction_poll_failed", kind=error.kind, error=str(error))
            return
        self._meters.saw(answer.backlog)
        self._layers_changed = answer.backlog.layers != self._layers
        self._layers = answer.backlog.layers
        for uid, said in sent.items():
            # One of a repository that is gone has nobody to hear it.
            if uid in answer.heard or uid not in answer.seen:
                del self._reports[uid][: len(said)]
        self._reports = {uid: reports for uid, reports in self._reports.items() if reports}
        self._rests = {uid: rest for uid, rest in self._rests.items() if uid in answer.seen}
        for uid, reports in answer.refused.items():
            self._reports.setdefault(uid, []).extend(reports)
        for attempt in answer.lost & self._running.keys():
            self._running[attempt].task.cancel()
        for assignment in answer.assigned:
            self._begin(assignment)

    async def idle(self) -> None:
        """Return when every job that this worker has begun is over."""
        while self._running:
            await asyncio.wait([each.task for each in self._running.values()])
            # Their ends are noted by callbacks, which come a moment later.
            await asyncio.sleep(0)

    def _begin(self, assignment: Assignment) -> None:
        attempt = RunningAttempt(
            assignment, worker=self._name, service=self._service, runner=self._runner, clock=self._clock
        )
        task = asyncio.create_task(attempt.run())
        self._running[assignment.attempt] = _Running(assignment, task, self._clock.monotonic())
        task.add_done_callback(self._noting(assignment.attempt))

    def _noting(self, attempt: Attempt) -> "Callable[[asyncio.Task[Ended]], None]":
        return lambda _task: self._note(self._running.pop(attempt))

    def _note(self, each: _Running) -> None:
        """Remember how an attempt ended for the next poll, count it and log it."""
        job, seconds = each.assignment.job, self._clock.monotonic() - each.since
        ended = Ended(report=None) if each.task.cancelled() else each.task.result()
        report = ended.report
        if each.task.cancelled() and self._stopping:
            report = Report(job=job.id, token=job.token, status=Status.RELEASED)
        if report is not None:
            self._reports.setdefault(each.assignment.repo.uid, []).append(report)
        else:
            self._meters.lost()
        outcome = report.status.value if report is not None else "lost"
        self._rest(each.assignment.repo.uid, outcome)
        made = ended.made
        self._meters.ended(job.spec.kind, outcome, seconds=seconds, made=made)
        if report is not None and outcome == Status.DONE:
            self._meters.flushed(report.flushed_bytes)
        log.info(
            "compacted" if outcome == Status.DONE else "compaction_ended",
            repository=each.assignment.repo.name,
            branch=job.spec.branch,
            job=job.id,
            token=job.token,
            kind=job.spec.kind.value,
            reason=job.spec.reason,
            outcome=outcome,
            layers=len(job.spec.sources),
            rows=made.rows if made else 0,
            bytes_read=made.bytes_read if made else 0,
            bytes_written=made.bytes_written if made else 0,
            seconds=round(seconds, 3),
            error=report.error if report is not None else "the lease was lost",
        )
        self._wake.set()

    def _rest(self, uid: RepoUid, outcome: str) -> None:
        """Leave a repository alone for a while if its stores fail, and no longer if they do not."""
        if outcome == Status.DONE:
            self._rests.pop(uid, None)
        if outcome == Status.POSTPONED:
            before = self._rests.get(uid)
            seconds = (
                min(2 * before.seconds, COMPACTION_REST_SECONDS_MAX) if before else COMPACTION_REST_SECONDS
            )
            self._rests[uid] = _Rest(seconds, self._clock.monotonic() + seconds * self._ids.jitter())

    async def _pause(self, seconds: float) -> None:
        """Wait for the next poll, which comes early when a place becomes free."""
        if self._stopping:
            return
        woken = asyncio.create_task(self._wake.wait())
        slept = asyncio.create_task(self._clock.sleep(seconds * self._ids.jitter()))
        try:
            await asyncio.wait({woken, slept}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            woken.cancel()
            slept.cancel()

    async def _give_back(self) -> None:
        self._stopping = True
        for each in self._running.values():
            each.task.cancel()
        await self.idle()
        if any(self._reports.values()):
            await self.round()
