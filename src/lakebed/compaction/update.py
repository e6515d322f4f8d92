"""`PlanUpdate`: one step of a schedule, prepared from a read and committed by a swap.

`prepare` reads and decides; `apply` changes. Between the two, the schedule may have moved:
then the swap is lost, the update is thrown away, and somebody else was the scheduler. Applying
an update twice is applying it once, so a reply that got lost does no harm.
"""

from dataclasses import dataclass, replace

from lakebed.env.clock import Instant
from lakebed.errors import ConflictError, ErrorKind
from lakebed.model.compaction import Held, Job, JobState, Schedule, Spec


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanUpdate:
    """What changes in a schedule of version `version`. `id` is the name that the author recognises it by."""

    id: str
    version: int
    now: Instant
    removed: tuple[str, ...] = ()
    """Jobs that are done, gone, halved or evicted."""
    written: tuple[Job, ...] = ()
    """Jobs as they are from now on, new ones too."""
    held: tuple[Held, ...] = ()
    last_token: int = 0
    next_number: int = 1
    flushed_bytes: int = 0
    written_bytes: int = 0
    """What jobs that are done add to the schedule's."""
    assigned: tuple[Job, ...] = ()
    """Those of `written` that the asking worker gets; the slot is claimed before it is told."""
    lost: tuple[str, ...] = ()
    """Jobs that the asking worker runs and must stop: they are somebody else's, or gone."""

    @property
    def is_empty(self) -> bool:
        """Whether nothing worth a swap changes; what a worker has lost, it is told anyway."""
        return not (self.removed or self.written)


def apply(schedule: Schedule, update: PlanUpdate) -> Schedule:
    """Return the schedule after the update.

    Raises:
        ConflictError: the schedule has moved since the update was prepared.
    """
    if schedule.version == update.version + 1 and schedule.update == update.id:
        return schedule
    if schedule.version != update.version:
        raise ConflictError(
            ErrorKind.VERSION_CHANGED,
            f"compaction schedule moved from version {update.version} to {schedule.version}",
        )
    jobs = {job.id: job for job in schedule.jobs if job.id not in update.removed}
    jobs |= {job.id: job for job in update.written}
    return replace(
        schedule,
        version=schedule.version + 1,
        now=update.now,
        jobs=tuple(sorted(jobs.values(), key=lambda job: job.number)),
        held=update.held,
        last_token=update.last_token,
        next_number=update.next_number,
        update=update.id,
        flushed_bytes=schedule.flushed_bytes + update.flushed_bytes,
        written_bytes=schedule.written_bytes + update.written_bytes,
    )


def paused(schedule: Schedule, *, is_paused: bool, update: str) -> Schedule:
    """Return the schedule with no new assignments from now on, or with them again."""
    return replace(schedule, paused=is_paused, version=schedule.version + 1, update=update)


def queued(schedule: Schedule, spec: Spec, *, now: Instant, update: str) -> tuple[Schedule, Job]:
    """Return the schedule with one more job, which somebody asked for, and that job."""
    job = Job(spec=spec, number=schedule.next_number, added_at=max(now, schedule.now))
    changed = replace(
        schedule,
        jobs=(*schedule.jobs, job),
        next_number=schedule.next_number + 1,
        version=schedule.version + 1,
        update=update,
    )
    return changed, job


def retried(schedule: Schedule, jobs: frozenset[str] | None, *, update: str, failures: int = 0) -> Schedule:
    """Return the schedule with these parked jobs (None: all of them) queued again, as if they had failed so often.

    Below 0, they may fail more often than others before they are parked again.
    """
    again = tuple(
        replace(job, state=JobState.QUEUED, failures=failures, silences=0, error="")
        if job.state is JobState.PARKED and (jobs is None or job.id in jobs)
        else job
        for job in schedule.jobs
    )
    held = schedule.held if jobs is not None else ()
    return replace(schedule, jobs=again, held=held, version=schedule.version + 1, update=update)


def next_epoch(schedule: Schedule, *, era: int = 0, update: str) -> Schedule:
    """Return the schedule of a database that went back in time: its tokens are above all given out before.

    `era` is the hour: of two restores of one copy, the later has the greater epoch although both find the same one.
    """
    return replace(schedule, epoch=max(schedule.epoch + 1, era), version=schedule.version + 1, update=update)
