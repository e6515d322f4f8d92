"""`CompactionService`: carries out what the pure parts decide. Any number may run; nobody leads.

A poll of a worker. Order matters.

    1. read     each repository's job document, then its branches: a slot that the document does not know
                of and could is stale
    2. share    the worker's free places between the repositories
    3. assign   one swap of the job document
    4. claim    one swap of the branch record: the slot names job and token
    5. answer   the worker gets what was claimed

Crash after 3: a job whose lease runs out. Crash after 4: the same, and a slot that the next claim
overwrites. 5 before 4 would let a worker write files that nothing protects.

An install is one swap of the branch record as well. It is refused, not lost, when the branch is no
longer what the job was planned on.
"""

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace

from lakebed.compaction.census import Census
from lakebed.compaction.desk import Desk, Desks
from lakebed.compaction.fairness import Demand, share
from lakebed.compaction.guard import slot_of, spec_refusal
from lakebed.compaction.install import claim, has_landed, install
from lakebed.compaction.limits import CompactionLimits
from lakebed.compaction.load import total_load
from lakebed.compaction.planner import plan
from lakebed.compaction.scheduler import Poll, Report, Status, prepare
from lakebed.compaction.sealer import Sealer
from lakebed.compaction.store import Attempt, JobStore
from lakebed.compaction.update import apply, next_epoch, paused, queued, retried
from lakebed.errors import (
    ConflictError,
    ErrorKind,
    LakebedError,
    NotFoundError,
    UnavailableError,
    is_unknown,
)
from lakebed.limits import COMPACTION_SWAPS_MAX
from lakebed.model.branch import Slot
from lakebed.model.compaction import Job, JobKind, JobState, Output, Schedule, Spec
from lakebed.model.ids import BranchName, RepoUid
from lakebed.model.layers import Layer
from lakebed.model.repository import Repository
from lakebed.model.segments import era_at
from lakebed.refs.backoff import back_off
from lakebed.refs.repositories import Repositories
from lakebed.telemetry.log import get_logger
from lakebed.versioning.parts import Parts

log = get_logger(__name__)

Reports = Mapping[RepoUid, Sequence[Report]]


@dataclass(frozen=True, slots=True)
class Assignment:
    """A job whose slot is claimed."""

    repo: Repository
    job: Job

    @property
    def attempt(self) -> Attempt:
        return self.job.id, self.job.token


@dataclass(slots=True)
class Backlog:
    """What one poll saw, over all repositories."""

    layers: int = 0
    """Sealed layers of all branches."""
    layers_max: int = 0
    """The most sealed layers that one branch has."""
    waiting: dict[JobKind, int] = field(default_factory=lambda: dict.fromkeys(JobKind, 0))
    parked: int = 0

    def add(self, desk: Desk) -> None:
        self.layers += desk.layers
        self.layers_max = max(self.layers_max, desk.layers_max)
        for job in desk.stored.value.jobs:
            self.waiting[job.spec.kind] += job.state is JobState.QUEUED
            self.parked += job.state is JobState.PARKED


@dataclass(frozen=True, slots=True)
class Answer:
    """What a worker is told."""

    assigned: list[Assignment] = field(default_factory=list)
    lost: set[Attempt] = field(default_factory=set)
    """Attempts of its own that it must stop."""
    seen: set[RepoUid] = field(default_factory=set)
    """Repositories that there are."""
    heard: set[RepoUid] = field(default_factory=set)
    """Repositories whose reports have arrived."""
    refused: dict[RepoUid, list[Report]] = field(default_factory=dict)
    """Reports on jobs whose slot could not be claimed, to be sent with the next poll."""
    backlog: Backlog = field(default_factory=Backlog)


class CompactionService:
    """Sensor, planner and scheduler over the stores."""

    def __init__(
        self,
        parts: Parts,
        repositories: Repositories,
        *,
        limits: CompactionLimits | None = None,
        kinds: AbstractSet[JobKind] = frozenset(JobKind),
    ) -> None:
        """Give out jobs of these kinds only."""
        self._parts = parts
        self._repositories = repositories
        self._kinds = kinds
        self._last: RepoUid | None = None
        self._unreadable: dict[RepoUid, str] = {}
        self._census = census = Census(parts.kv, parts.workers)
        self.limits = limits or CompactionLimits()
        self.jobs = JobStore(parts.kv, clock=parts.clock, ids=parts.ids)
        self._sealer = Sealer(parts.branches, census, clock=parts.clock, limits=self.limits)
        self._desks = Desks(parts, self.jobs, census, self._sealer)

    async def poll(
        self,
        worker: str,
        *,
        free: int,
        running: Mapping[RepoUid, AbstractSet[Attempt]] | None = None,
        reports: Reports | None = None,
        resting: AbstractSet[RepoUid] = frozenset(),
    ) -> Answer:
        """Take reports, and hand out as many jobs as the worker has free places; none of repositories that are `resting`.

        A repository whose records cannot be read or written now is left out; its reports are not `heard`.
        """
        answer = Answer()
        desks = await self._read(answer)
        told: dict[RepoUid, tuple[Report, ...]] = {}
        for desk in desks:
            uid = desk.repo.uid
            answer.backlog.add(desk)
            mine = (running or {}).get(uid, frozenset())
            lost = {attempt for attempt in mine if not desk.is_held(attempt)}
            answer.lost.update(lost)
            told[uid] = (*(reports or {}).get(uid, ()), *_late(desk, mine - lost))
        demands = {
            desk.repo.uid: self._demand(desk, told[desk.repo.uid], free)
            for desk in desks
            if desk.repo.uid not in resting
        }
        grants = share(demands, free, last=self._last)
        for desk in desks:
            uid = desk.repo.uid
            poll = Poll(id="", worker=worker, free=grants.get(uid, {}), reports=told[uid])
            try:
                await self._settle(desk, poll, answer)
            except LakebedError as error:
                log.warning("compaction_poll_failed", repository=desk.repo.name, error=str(error))
                continue
            answer.heard.add(uid)
        return answer

    async def install(self, repo: Repository, job: Job, output: Output) -> Status:
        """Install a result, and return what became of the attempt: done, or released for another try."""
        spec, token = job.spec, job.token
        if spec.is_probe:
            return Status.DONE
        try:
            await self._parts.branches.update(
                repo,
                spec.branch,
                lambda branch, now: install(branch, spec, output, token=token, now=now),
                landed=lambda branch: has_landed(branch, spec, output, token=token),
            )
        except (ConflictError, NotFoundError) as error:
            log.info("install_refused", job=job.id, error=str(error))
            return await self._after_refusal(repo, spec)
        except UnavailableError as error:
            if not is_unknown(error):
                raise
            return await self._after_refusal(repo, spec)
        return Status.DONE

    def flushed_bytes(self, layers: Iterable[Layer]) -> int:
        """Return how large layers are as writers made them; tokens as far as they were counted."""
        return total_load(layers, self._census.known()).bytes

    async def ask(self, repo: Repository, name: BranchName) -> Job | None:
        """Queue a job that brings what is staged on a branch into its tree; None if there is nothing to do.

        Raises:
            UnavailableError: the queue is full.
        """
        branch = (await self._parts.branches.get(repo, name)).value
        if branch.staging_token is not None:
            branch = await self._sealer.seal(repo, branch)
        now = await self.jobs.now()
        found: list[Job] = []

        def add(schedule: Schedule, update: str) -> Schedule:
            mine = [job for job in schedule.jobs if job.spec.incarnation == branch.incarnation]
            found[:] = [j for j in mine if j.spec.kind is JobKind.L2 and j.state is not JobState.PARKED]
            busy = {source for job in mine for source in job.spec.sources}
            specs = plan(branch, busy=busy, loads={}, now=now, limits=self.limits, forced=True)
            wanted = [spec for spec in specs if spec.kind is JobKind.L2]
            if not wanted:
                return schedule
            if len(schedule.jobs) >= self.limits.jobs_max:
                raise UnavailableError(
                    ErrorKind.STORE_UNAVAILABLE, f"{len(schedule.jobs)} compaction jobs wait: try again later"
                )
            changed, job = queued(schedule, wanted[0], now=now, update=update)
            found[:] = [job]
            return changed

        await self.jobs.change(repo, add)
        return found[0] if found else None

    async def pause(self, repo: Repository, *, is_paused: bool) -> None:
        """Give out no more jobs in a repository from now on, or do so again. What runs goes on."""
        await self.jobs.change(
            repo,
            lambda schedule, update: (
                schedule
                if schedule.paused == is_paused
                else paused(schedule, is_paused=is_paused, update=update)
            ),
        )

    async def raise_epoch(self, repo: Repository) -> int:
        """Make every token from now on greater than any of a later copy of the database; return the epoch."""
        era = era_at(await self.jobs.now())
        changed = await self.jobs.change(
            repo, lambda schedule, update: next_epoch(schedule, era=era, update=update)
        )
        return changed.epoch

    async def retry(
        self, repo: Repository, jobs: Sequence[str] | None = None, *, failures_max: int | None = None
    ) -> int:
        """Queue parked jobs again (None: all of them), and return how many they were.

        With `failures_max` they may fail that often before they are halved or parked.
        """
        wanted = frozenset(jobs) if jobs is not None else None
        failures = 0 if failures_max is None else self.limits.failures_max - failures_max
        count = 0

        def change(schedule: Schedule, update: str) -> Schedule:
            nonlocal count
            parked = {job.id for job in schedule.jobs if job.state is JobState.PARKED}
            count = len(parked if wanted is None else parked & wanted)
            if not count and (wanted is not None or not schedule.held):
                return schedule
            return retried(schedule, wanted, update=update, failures=failures)

        await self.jobs.change(repo, change)
        return count

    async def _read(self, answer: Answer) -> list[Desk]:
        desks: list[Desk] = []
        async for found in self._repositories.scan():
            if not isinstance(found.value, Repository):
                continue
            answer.seen.add(found.value.uid)
            try:
                desks.append(await self._desks.read(found.value))
            except LakebedError as error:
                # One repository that cannot be read, or that a newer lakebed plans, must not stop the others.
                self._say_once(found.value, str(error))
            else:
                self._unreadable.pop(found.value.uid, None)
        self._desks.forget_all_but(answer.seen)
        self._unreadable = {uid: why for uid, why in self._unreadable.items() if uid in answer.seen}
        return desks

    def _say_once(self, repo: Repository, error: str) -> None:
        """Log why a repository is left alone: when it begins, not once a second for days."""
        if self._unreadable.get(repo.uid) != error:
            self._unreadable[repo.uid] = error
            log.warning("compaction_left_alone", repository=repo.name, error=error)

    def _demand(self, desk: Desk, reports: tuple[Report, ...], free: int) -> Demand:
        poll = Poll(id="", worker="", free=dict.fromkeys(self._kinds, free), reports=reports)
        update = prepare(desk.stored.value, poll, desk.facts, now=desk.now, limits=self.limits)
        kinds = [job.spec.kind for job in update.assigned]
        return {kind: kinds.count(kind) for kind in self._kinds}

    async def _settle(self, desk: Desk, poll: Poll, answer: Answer) -> None:
        """Swap a repository's job document on, and claim what was assigned.

        Raises:
            ConflictError: `TOO_MANY_RETRIES`: others are scheduling here.
        """
        for attempt in range(COMPACTION_SWAPS_MAX):
            named = replace(poll, id=self._parts.ids.token())
            update = prepare(desk.stored.value, named, desk.facts, now=desk.now, limits=self.limits)
            if update.is_empty:
                return
            try:
                await self.jobs.swap(desk.repo, desk.stored, apply(desk.stored.value, update))
            except ConflictError:
                await back_off(attempt, clock=self._parts.clock, ids=self._parts.ids)
                desk = await self._desks.read(desk.repo)
                continue
            for job in update.assigned:
                await self._hand_out(Assignment(desk.repo, job), answer)
            return
        raise ConflictError(
            ErrorKind.TOO_MANY_RETRIES, f"compaction jobs of {desk.repo.name} are changed by too many at once"
        )

    async def _hand_out(self, assignment: Assignment, answer: Answer) -> None:
        repo, job = assignment.repo, assignment.job
        try:
            status = await self._claim(repo, job)
        except UnavailableError:
            status = Status.RELEASED
        if status is Status.RUNNING:
            answer.assigned.append(assignment)
            self._last = repo.uid
            return
        report = Report(job=job.id, token=job.token, status=status)
        answer.refused.setdefault(repo.uid, []).append(report)

    async def _claim(self, repo: Repository, job: Job) -> Status:
        """Give the job its slot; return whether it is running, or why not."""
        slot = Slot(job=job.id, token=job.token)
        try:
            await self._parts.branches.update(
                repo,
                job.spec.branch,
                lambda branch, now: claim(branch, job.spec, token=job.token, now=now),
                landed=lambda branch: slot_of(branch, job.spec.kind) == slot,
            )
        except (ConflictError, NotFoundError):
            return await self._after_refusal(repo, job.spec)
        return Status.RUNNING

    async def _after_refusal(self, repo: Repository, spec: Spec) -> Status:
        """Return whether a job that was refused is over, or may be tried again."""
        found = await self._parts.branches.find(repo, spec.branch)
        refusal = spec_refusal(found.value if found else None, spec, now=await self.jobs.now())
        return Status.DONE if refusal is not None and refusal.is_over else Status.RELEASED


def _late(desk: Desk, attempts: AbstractSet[Attempt]) -> list[Report]:
    """Return reports that renew the leases which ran out, of attempts whose jobs nobody else has."""
    return [
        Report(job=job, token=token, status=Status.RUNNING)
        for job, token in sorted(attempts)
        if desk.is_queued(job)
    ]
