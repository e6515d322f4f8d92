"""One poll of a worker: reports in, assignments out. Pure and read-only.

    1. reports    by job and token; one with another token than the job's changes nothing
    2. leases     a job whose lease ran out goes back to the queue, with a failure; after too many its run is searched
                  for the layer that fails, which is parked
    3. assign     lower levels first, then fewer failures, then who waits longest; each gets a token of its own
    4. plan       as many new jobs as the worker has free places, and assign them to what places are left;
                  a full queue makes room by letting parked jobs go

The search halves a run. Its older half is tried first, once. If that fails, it is halved in turn. If it is done, the newer
half is suspect and is tried next, once. A layer that fails alone is parked, and the layers around it are merged. So a run
that keeps failing parks a layer after `failures_max` + 1 failures and one or two tries for each halving.
A fold of one layer is a probe: it reads the layer and installs nothing. If the last suspect passes its probe, its
neighbours fail only together with it: it is held, so that the same run is not tried again before `held_seconds`.

Of one kind nobody overtakes: what was queued is assigned before anything is planned. A failure
report is a hint: a job that kills its worker sends none, so what counts in the end is the lease.
An attempt without a single heartbeat was
mostly never heard of by any worker, and does not count as a failure the first few times.
"""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from enum import StrEnum

from lakebed.compaction.guard import Refusal, spec_refusal
from lakebed.compaction.limits import CompactionLimits
from lakebed.compaction.load import Loads
from lakebed.compaction.planner import plan
from lakebed.compaction.update import PlanUpdate
from lakebed.env.clock import Instant, after
from lakebed.model.branch import Branch, BranchRecord, DeletedBranch
from lakebed.model.compaction import Held, Job, JobKind, JobState, Schedule, Source, Spec
from lakebed.model.ids import BranchName, Nonce


class Status(StrEnum):
    """What became of an attempt."""

    RUNNING = "running"
    DONE = "done"
    """Installed, or there is nothing left to install: sources that are gone are no failure."""
    FAILED = "failed"
    RELEASED = "released"
    """Given back unfinished: the worker stops, or an operation on HEAD is in the way."""
    POSTPONED = "postponed"
    """Given back because a store does not answer or is full: that says nothing about the layers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What is known of one attempt."""

    job: str
    token: int
    status: Status
    error: str = ""
    flushed_bytes: int = 0
    """Of layers that were merged for the first time."""
    written_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Poll:
    """A worker's question, under a name that nobody used before. `free` is how many jobs of each kind it may get."""

    id: str
    worker: str
    free: Mapping[JobKind, int]
    reports: tuple[Report, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What was read for a poll.

    `branches` are the records at hand: those that new jobs are planned from, in order of preference; None
    is one that does not exist. `heartbeats` are by job and token. `forced` branches are compacted whatever their size.
    """

    branches: Mapping[BranchName, BranchRecord | None]
    heartbeats: Mapping[tuple[str, int], Instant] = field(default_factory=dict)
    loads: Loads = field(default_factory=dict)
    forced: AbstractSet[BranchName] = frozenset()


def prepare(
    schedule: Schedule, poll: Poll, facts: Facts, *, now: Instant, limits: CompactionLimits
) -> PlanUpdate:
    """Return what the poll changes."""
    draft = _Draft(schedule, poll, facts, now, limits)
    for report in poll.reports:
        draft.take(report)
    draft.expire()
    if not schedule.paused:
        draft.assign_queued()
        draft.plan_new()
    return draft.update()


class _Draft:
    """A schedule being changed."""

    def __init__(
        self, schedule: Schedule, poll: Poll, facts: Facts, now: Instant, limits: CompactionLimits
    ) -> None:
        self._before = {job.id: job for job in schedule.jobs}
        self._jobs = dict(self._before)
        self._schedule = schedule
        self._poll = poll
        self._facts = facts
        self._limits = limits
        # Engine time as records tell it never goes back: a scheduler with a slow clock cannot revive a lease.
        self._now = max(now, schedule.now)
        self._held = [held for held in schedule.held if held.until > self._now]
        self._next_number = schedule.next_number
        self._free = {kind: poll.free.get(kind, 0) for kind in JobKind}
        self._flushed = 0
        self._written = 0
        self._lost: list[str] = []
        self._assigned: list[str] = []
        self._reported: set[str] = set()
        # Above every token given out, whether this document or a branch remembers it.
        known = [r.last_token for r in facts.branches.values() if r is not None]
        self._last_token = max([schedule.token_floor, *known])

    def take(self, report: Report) -> None:
        job = self._jobs.get(report.job)
        if job is None or job.token != report.token or job.state is JobState.PARKED:
            self._lost.append(report.job)
            return
        match report.status:
            case Status.DONE:
                del self._jobs[job.id]
                self._flushed += report.flushed_bytes
                self._written += report.written_bytes
                self._suspect(job)
            case Status.FAILED:
                if job.state is JobState.RUNNING:
                    self._fail(job, report.error)
            case Status.RELEASED:
                self._jobs[job.id] = replace(job, state=JobState.QUEUED, worker="")
                self._reported.add(job.id)
            case Status.POSTPONED:
                # To the end of the queue: if it is this job alone that meets the fault, others go on.
                self._jobs[job.id] = replace(
                    job, state=JobState.QUEUED, worker="", error=report.error, number=self._next_number
                )
                self._next_number += 1
                self._reported.add(job.id)
            case Status.RUNNING:
                # Late, but nobody else has it: it goes on.
                self._jobs[job.id] = self._leased(job, job.token)

    def expire(self) -> None:
        for job in list(self._jobs.values()):
            if job.state is not JobState.RUNNING:
                continue
            beat = self._facts.heartbeats.get((job.id, job.token))
            renewed = Instant(0) if beat is None else after(beat, self._limits.lease_seconds)
            if self._now <= max(job.lease_expires_at, renewed):
                continue
            if beat is None and job.silences < self._limits.failures_max:
                silent = replace(job, silences=job.silences + 1, state=JobState.QUEUED, worker="")
                self._jobs[job.id] = silent
            else:
                self._fail(job, job.error or "its worker fell silent")

    def assign_queued(self) -> None:
        waiting = [job for job in self._jobs.values() if job.state is JobState.QUEUED]
        for job in sorted(waiting, key=lambda j: (j.spec.kind.level, j.failures, j.number)):
            if job.spec.branch in self._facts.branches:
                refusal = spec_refusal(self._facts.branches[job.spec.branch], job.spec, now=self._now)
                if refusal is not None and refusal.is_over:
                    del self._jobs[job.id]
                    continue
                if refusal is Refusal.PENDING:
                    continue
            # What was given back in this very poll is for somebody else, or for later.
            if job.id not in self._reported:
                self._assign(job)

    def plan_new(self) -> None:
        for kind in sorted(JobKind, key=lambda k: k.level):
            room = self._poll.free.get(kind, 0)
            for spec in self._wanted(kind):
                if room == 0 or not self._make_room():
                    break
                room -= 1
                job = Job(spec=spec, number=self._next_number, added_at=self._now)
                self._next_number += 1
                self._jobs[job.id] = job
                self._assign(job)

    def update(self) -> PlanUpdate:
        written = tuple(job for job in self._jobs.values() if self._before.get(job.id) != job)
        return PlanUpdate(
            id=self._poll.id,
            version=self._schedule.version,
            now=self._now,
            removed=tuple(job_id for job_id in self._before if job_id not in self._jobs),
            written=written,
            held=tuple(self._held[-self._limits.held_max :]),
            last_token=self._last_token,
            next_number=self._next_number,
            flushed_bytes=self._flushed,
            written_bytes=self._written,
            assigned=tuple(self._jobs[job_id] for job_id in self._assigned),
            lost=tuple(self._lost),
        )

    def _wanted(self, kind: JobKind) -> list[Spec]:
        """Return the specs of a kind that no job covers yet, at most one a branch."""
        live = {
            (job.spec.incarnation, job.spec.kind)
            for job in self._jobs.values()
            if job.state is not JobState.PARKED
        }
        busy = self._busy()
        wanted: list[Spec] = []
        for name, record in self._facts.branches.items():
            if len(wanted) == self._poll.free.get(kind, 0):
                break
            if record is None or isinstance(record, DeletedBranch) or (record.incarnation, kind) in live:
                continue
            specs = plan(
                record,
                busy=busy.get(record.incarnation, frozenset()),
                loads=self._facts.loads,
                now=self._now,
                limits=self._limits,
                forced=name in self._facts.forced,
            )
            wanted += [spec for spec in specs if spec.kind is kind]
        return wanted

    def _busy(self) -> dict[Nonce, set[Source]]:
        """Return the sources of each branch that no new job may touch."""
        busy: dict[Nonce, set[Source]] = {}
        for job in self._jobs.values():
            busy.setdefault(job.spec.incarnation, set()).update(job.spec.sources, job.suspects)
        for held in self._held:
            busy.setdefault(held.incarnation, set()).add(held.source)
        return busy

    def _make_room(self) -> bool:
        """Return whether the queue takes one more job; parked ones go for it, oldest first."""
        if len(self._jobs) < self._limits.jobs_max:
            return True
        parked = [job for job in self._jobs.values() if job.state is JobState.PARKED]
        if not parked:
            return False
        gone = min(parked, key=lambda job: job.number)
        del self._jobs[gone.id]
        self._hold(gone)
        return True

    def _hold(self, gone: Job) -> None:
        """Let no job touch the layers of a job that is gone, for a while."""
        until = after(self._now, self._limits.held_seconds)
        self._held += [
            Held(incarnation=gone.spec.incarnation, source=source, until=until)
            for source in gone.spec.sources
        ]

    def _assign(self, job: Job) -> None:
        spec = job.spec
        if self._free[spec.kind] == 0 or self._is_taken(spec):
            return
        self._free[spec.kind] -= 1
        self._last_token += 1
        self._jobs[job.id] = self._leased(job, self._last_token)
        self._assigned.append(job.id)

    def _is_taken(self, spec: Spec) -> bool:
        """Return whether the slot that the spec needs has an owner who is alive."""
        return any(
            job.state is JobState.RUNNING
            and (job.spec.incarnation, job.spec.kind) == (spec.incarnation, spec.kind)
            for job in self._jobs.values()
        )

    def _leased(self, job: Job, token: int) -> Job:
        return replace(
            job,
            state=JobState.RUNNING,
            token=token,
            worker=self._poll.worker,
            lease_expires_at=after(self._now, self._limits.lease_seconds),
        )

    def _fail(self, job: Job, error: str) -> None:
        failed = replace(job, failures=job.failures + 1, state=JobState.QUEUED, worker="", error=error)
        del self._jobs[job.id]
        if failed.failures > self._limits.failures_max:
            failed = self._halved(failed)
        self._jobs[failed.id] = failed

    def _halved(self, job: Job) -> Job:
        """Return the older half of a run, for one more try, or a run of one layer parked."""
        count = len(job.spec.sources)
        if count == 1:
            return replace(job, state=JobState.PARKED, suspects=())
        older = count // 2
        half = replace(
            job.spec, sources=job.spec.sources[-older:], reason=f"half of what failed: {job.spec.reason}"
        )
        return replace(
            job,
            spec=half,
            failures=self._limits.failures_max,
            silences=0,
            token=0,
            suspects=job.spec.sources[:-older],
        )

    def _suspect(self, done: Job) -> None:
        """Go on with the newer half of a run whose older half is done: a layer of it fails."""
        if done.spec.is_probe and not done.suspects:
            self._hold(done)
        record = self._facts.branches.get(done.spec.branch)
        if not done.suspects or not isinstance(record, Branch):
            return
        # The tree below may be another by now, made of the older half.
        spec = replace(done.spec, sources=done.suspects, compacted=record.compacted)
        refusal = spec_refusal(record, spec, now=self._now)
        if refusal is not None and refusal.is_over:
            return
        job = Job(
            spec=spec,
            number=self._next_number,
            added_at=self._now,
            failures=self._limits.failures_max,
            error=done.error,
        )
        self._next_number += 1
        self._jobs[job.id] = job
