"""Branches, layers and specs that the tests of compaction start from."""

from dataclasses import replace
from typing import Any

from lakebed.compaction.limits import CompactionLimits
from lakebed.compaction.scheduler import Facts, Poll, Report, Status, prepare
from lakebed.compaction.update import PlanUpdate, apply
from lakebed.env.clock import Instant, after
from lakebed.model.branch import Branch, Pending
from lakebed.model.compaction import Job, JobKind, Schedule, Spec, sources_of
from lakebed.model.ids import BranchName, CommitId, Nonce, StagingToken
from lakebed.model.layers import Layer, SegmentLayer, TokenLayer

MAIN = BranchName("main")
C1, C2 = CommitId("1" * 64), CommitId("2" * 64)
NOW = Instant(1_700_000_000_000_000)
LIMITS = CompactionLimits(fold_layers=3, fold_layers_max=4, l2_layers=6, failures_max=2, jobs_max=4)


def later(seconds: float) -> Instant:
    return after(NOW, seconds)


def token(seq: int, name: str = "main") -> TokenLayer:
    return TokenLayer(token=StagingToken(f"lake-{name}:{seq}"), seq=seq)


def segment(seq: int, **facts: Any) -> SegmentLayer:
    fields: dict[str, Any] = {
        "id": f"00000001-n{seq}",
        "dataset": "i",
        "min_key": "a",
        "max_key": "z",
        "entries": 10,
        "tombstones": 0,
        "bytes": 1000,
        "level": 0,
    }
    return SegmentLayer(seq=seq, **(fields | facts))


def branch(*layers: Layer, name: str = "main", **fields: Any) -> Branch:
    """Return a branch with these layers, newest first, that changed just now."""
    made = Branch(
        name=BranchName(name),
        incarnation=Nonce("i" if name == "main" else f"i-{name}"),
        commit_id=C1,
        sealed=layers,
        next_seq=layers[0].seq + 1 if layers else 1,
        updated_at=NOW,
    )
    return replace(made, **fields)


def tokens(count: int, name: str = "main") -> tuple[TokenLayer, ...]:
    return tuple(token(seq, name) for seq in range(count, 0, -1))


def spec(of: Branch, kind: JobKind, layers: tuple[Layer, ...]) -> Spec:
    return Spec(
        branch=of.name,
        incarnation=of.incarnation,
        kind=kind,
        sources=sources_of(layers),
        commit_id=of.commit_id,
        compacted=of.compacted,
        reason="a test",
    )


def pending(at: Instant = NOW, below: int | None = None) -> dict[Nonce, Pending]:
    return {Nonce("op"): Pending(commits=(C1,), renewed_at=at, below=below)}


class Service:
    """A schedule that is polled: what the shell does, without a KV."""

    def __init__(self, *branches: Branch, limits: CompactionLimits = LIMITS) -> None:
        self.schedule = Schedule()
        self.branches = {b.name: b for b in branches}
        self.beats: dict[tuple[str, int], Instant] = {}
        self.limits = limits
        self.polls = 0

    def prepare(
        self, *reports: Report, at: Instant = NOW, fold: int = 9, l2: int = 9, worker: str = "w", **facts: Any
    ) -> PlanUpdate:
        self.polls += 1
        poll = Poll(
            id=f"p{self.polls}",
            worker=worker,
            free={JobKind.FOLD: fold, JobKind.L2: l2},
            reports=reports,
        )
        known = Facts(branches=dict(self.branches), heartbeats=dict(self.beats), **facts)
        before = self.schedule
        update = prepare(self.schedule, poll, known, now=at, limits=self.limits)
        assert self.schedule == before, "prepare changes nothing"
        assert prepare(self.schedule, poll, known, now=at, limits=self.limits) == update
        return update

    def poll(self, *reports: Report, **how: Any) -> PlanUpdate:
        update = self.prepare(*reports, **how)
        self.schedule = apply(self.schedule, update)
        assert apply(self.schedule, update) == self.schedule, "applied twice is applied once"
        return update

    def job(self, job_id: str) -> Job:
        return next(job for job in self.schedule.jobs if job.id == job_id)

    def beat(self, job: Job, at: Instant) -> None:
        self.beats[job.id, job.token] = at


def report(job: Job, status: Status) -> Report:
    return Report(
        job=job.id, token=job.token, status=status, error="it broke" if status is Status.FAILED else ""
    )
