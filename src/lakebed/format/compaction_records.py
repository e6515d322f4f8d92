"""Job documents and leases as KV values (see `codec` for the version byte and what may change).

A kind or a state that this lakebed does not know was written by a newer one, which raises the
version for it: the document is then refused with the remedy, and the older process leaves
compaction to the newer ones.
"""

from typing import Any, Final

from lakebed.env.clock import Instant
from lakebed.format.codec import Codec, Stored
from lakebed.model.compaction import Held, Job, JobKind, JobState, Lease, Schedule, Source, Spec
from lakebed.model.ids import BranchName, CommitId, MetarangeId, Nonce


class _Source(Stored):
    seq: int
    name: str


class _Spec(Stored):
    branch: BranchName
    incarnation: Nonce
    kind: JobKind
    sources: tuple[_Source, ...]
    commit_id: CommitId
    compacted: MetarangeId | None
    reason: str


class _Job(Stored):
    spec: _Spec
    number: int
    added_at: Instant
    state: JobState
    failures: int
    silences: int
    token: int
    worker: str
    lease_expires_at: Instant
    error: str


class _HalvedJob(_Job):
    suspects: tuple[_Source, ...] = ()


class _Held(Stored):
    incarnation: Nonce
    source: _Source
    until: Instant


class _Schedule(Stored):
    version: int
    epoch: int
    last_token: int
    now: Instant
    jobs: tuple[_HalvedJob, ...]
    held: tuple[_Held, ...]
    next_number: int
    paused: bool
    update: str
    flushed_bytes: int = 0
    written_bytes: int = 0


class _Lease(Stored):
    job: str
    token: int
    worker: str
    renewed_at: Instant


_SCHEDULE: Final = Codec[_Schedule]("compaction schedule", 1, _Schedule)
_LEASE: Final = Codec[_Lease]("compaction lease", 1, _Lease)


def encode_schedule(schedule: Schedule) -> bytes:
    """Return a repository's job document as its KV value."""
    return _SCHEDULE.seal(
        _Schedule(
            schedule.version,
            schedule.epoch,
            schedule.last_token,
            schedule.now,
            tuple(map(_store_job, schedule.jobs)),
            tuple(_Held(h.incarnation, _Source(h.source.seq, h.source.name), h.until) for h in schedule.held),
            schedule.next_number,
            schedule.paused,
            schedule.update,
            schedule.flushed_bytes,
            schedule.written_bytes,
        )
    )


def decode_schedule(data: bytes) -> Schedule:
    """Return what `encode_schedule` was given.

    Raises:
        CorruptError: not bytes that it returned, or those of a newer version.
    """
    s = _SCHEDULE.open(data)
    return Schedule(
        version=s.version,
        epoch=s.epoch,
        last_token=s.last_token,
        now=s.now,
        jobs=tuple(map(_load_job, s.jobs)),
        held=tuple(
            Held(incarnation=h.incarnation, source=Source(h.source.seq, h.source.name), until=h.until)
            for h in s.held
        ),
        next_number=s.next_number,
        paused=s.paused,
        update=s.update,
        flushed_bytes=s.flushed_bytes,
        written_bytes=s.written_bytes,
    )


def encode_lease(lease: Lease) -> bytes:
    """Return a heartbeat as its KV value."""
    return _LEASE.seal(_Lease(lease.job, lease.token, lease.worker, lease.renewed_at))


def decode_lease(data: bytes) -> Lease:
    """Return what `encode_lease` was given; errors as for `decode_schedule`."""
    s = _LEASE.open(data)
    return Lease(job=s.job, token=s.token, worker=s.worker, renewed_at=s.renewed_at)


def _store_job(job: Job) -> Any:
    """Return a job as it is stored: without suspects if there are none, as older versions wrote it."""
    spec = job.spec
    fields = (
        _Spec(
            spec.branch,
            spec.incarnation,
            spec.kind,
            tuple(_Source(s.seq, s.name) for s in spec.sources),
            spec.commit_id,
            spec.compacted,
            spec.reason,
        ),
        job.number,
        job.added_at,
        job.state,
        job.failures,
        job.silences,
        job.token,
        job.worker,
        job.lease_expires_at,
        job.error,
    )
    if not job.suspects:
        return _Job(*fields)
    return _HalvedJob(*fields, tuple(_Source(s.seq, s.name) for s in job.suspects))


def _load_job(s: _HalvedJob) -> Job:
    return Job(
        spec=Spec(
            branch=s.spec.branch,
            incarnation=s.spec.incarnation,
            kind=s.spec.kind,
            sources=tuple(Source(source.seq, source.name) for source in s.spec.sources),
            commit_id=s.spec.commit_id,
            compacted=s.spec.compacted,
            reason=s.spec.reason,
        ),
        number=s.number,
        added_at=s.added_at,
        state=s.state,
        failures=s.failures,
        silences=s.silences,
        token=s.token,
        worker=s.worker,
        lease_expires_at=s.lease_expires_at,
        error=s.error,
        suspects=tuple(Source(source.seq, source.name) for source in s.suspects),
    )
