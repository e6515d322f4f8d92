"""Compaction jobs: what is to be merged, who is at it, and the document that says so.

A repository has one `Schedule`, changed only by swaps: winning one is being the scheduler
for that step. A `Spec` says what a job reads and what it may assume; the same spec has the
same id, so planning twice plans once. Whether a result may be installed is not decided
here but in the branch record, which names the one token that may.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TypeAlias

import msgspec

from lakebed.env.clock import Instant
from lakebed.model.diffs import ChangeCounts
from lakebed.model.ids import BranchName, CommitId, MetarangeId, Nonce
from lakebed.model.layers import Layer, SegmentLayer, layer_name

# More assignments than a repository ever makes between two restores of its database.
_EPOCH_BITS: Final = 40


class JobKind(StrEnum):
    """What a job makes."""

    FOLD = "fold"
    """Adjacent layers become one segment; tombstones stay."""
    L2 = "l2"
    """The oldest layers go into the compacted tree; tombstones go."""

    @property
    def level(self) -> int:
        """Small jobs first: lower levels are assigned before higher ones."""
        return 0 if self is JobKind.FOLD else 1


class JobState(StrEnum):
    """Where a job is. One that is done is no longer there."""

    QUEUED = "queued"
    RUNNING = "running"
    PARKED = "parked"
    """Failed too often to be tried again unless somebody asks for it."""


@dataclass(frozen=True, slots=True)
class Source:
    """A layer by its place and its name: a fold's output has the place of its newest source, but not its name."""

    seq: int
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Spec:
    """What a job reads, newest first, and what must still be so when its result is installed."""

    branch: BranchName
    incarnation: Nonce
    kind: JobKind
    sources: tuple[Source, ...]
    commit_id: CommitId
    compacted: MetarangeId | None
    reason: str
    """Why it was planned, for people."""

    @property
    def is_probe(self) -> bool:
        """Whether the job only finds out if its layer can be read: a fold of one layer makes nothing new."""
        return self.kind is JobKind.FOLD and len(self.sources) == 1

    @property
    def id(self) -> str:
        """The job's name: 20 hex digits over everything but the reason."""
        facts = (
            self.incarnation,
            self.kind,
            [(s.seq, s.name) for s in self.sources],
            self.commit_id,
            self.compacted,
        )
        return hashlib.sha256(msgspec.json.encode(facts)).hexdigest()[:20]


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A spec on its way.

    `number` is its place in the queue. `token` is that of the last assignment, 0 before
    the first; a report that carries another changes nothing. `silences` counts
    assignments that nobody ever began, as far as heartbeats tell. `suspects` are the newer
    part of a run that failed: if this job, its older part, can be done, a layer that fails is among them.
    """

    spec: Spec
    number: int
    added_at: Instant
    state: JobState = JobState.QUEUED
    failures: int = 0
    silences: int = 0
    token: int = 0
    worker: str = ""
    lease_expires_at: Instant = Instant(0)
    error: str = ""
    suspects: tuple[Source, ...] = ()

    @property
    def id(self) -> str:
        return self.spec.id


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """A layer that no job touches before `until`: its parked job made room for others."""

    incarnation: Nonce
    source: Source
    until: Instant


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """All jobs of one repository.

    `version` counts its changes and `update` names the last one, by which its author
    recognises it. `now` is the engine time of that change: it never goes back, whatever clocks
    do. Tokens are `epoch * 2**40` and a number above every one given out; an operator who restores
    an old copy of the database raises `epoch`.
    """

    version: int = 0
    epoch: int = 0
    last_token: int = 0
    now: Instant = Instant(0)
    jobs: tuple[Job, ...] = ()
    held: tuple[Held, ...] = ()
    next_number: int = 1
    paused: bool = False
    update: str = ""
    flushed_bytes: int = 0
    """Of layers as writers made them, over all jobs that were done. By it and the next: write amplification."""
    written_bytes: int = 0
    """Of the files that those jobs made."""

    @property
    def token_floor(self) -> int:
        """The number that every new token is above, and every one given out is not."""
        return max(self.epoch << _EPOCH_BITS, self.last_token)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """A heartbeat: the attempt that it belongs to is alive at `renewed_at`. One record an attempt."""

    job: str
    token: int
    worker: str
    renewed_at: Instant


@dataclass(frozen=True, slots=True, kw_only=True)
class FoldOutput:
    """The segment that took the place of a run; None if nothing was left of it. Its `seq` does not count yet."""

    layer: SegmentLayer | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeOutput:
    """The new compacted tree, and how it differs from the commit's; None if not a row does."""

    tree: MetarangeId | None
    counts: ChangeCounts


Output: TypeAlias = FoldOutput | TreeOutput


def source_of(layer: Layer) -> Source:
    """Return a layer as a job names it."""
    return Source(layer.seq, layer_name(layer))


def sources_of(layers: Sequence[Layer]) -> tuple[Source, ...]:
    """Return layers as a job names them."""
    return tuple(map(source_of, layers))
