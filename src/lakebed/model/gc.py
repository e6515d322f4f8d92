"""The garbage collector's run record: who collects, and what has been marked.

One record for each repository, changed only by a swap, so that whatever a collector may
do is decided by whether its swap wins. All times are the engine's.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from lakebed.env.clock import Instant


class RunKind(StrEnum):
    """What a run is for."""

    MARK = "mark"
    SWEEP = "sweep"


class MarkKind(StrEnum):
    """How much a mark has looked at."""

    CLEAN = "clean"
    OPTIMIZED = "optimized"


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """The one run that collects now, until `expires_at` unless it is renewed.

    `attempt` names the newest preparation of commits of this run; `prepared` is the same once that is done. Commits
    are condemned under an attempt's name.
    """

    run: str
    token: int
    kind: RunKind
    holder: str
    started_at: Instant
    expires_at: Instant
    grace_seconds: float
    attempt: str = ""
    prepared: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """A published mark. Its commits were condemned by `condemner`, and never come back."""

    run: str
    condemner: str
    kind: MarkKind
    started_at: Instant
    marked_at: Instant
    optimized_since_clean: int
    """How many optimized marks there were since the last clean one, this one included."""
    counts: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A run as it is remembered; without an `outcome` it is going on, or its collector died."""

    id: str
    kind: RunKind
    holder: str
    started_at: Instant
    ended_at: Instant | None = None
    outcome: str = ""
    counts: Mapping[str, int] = field(default_factory=dict)
    """What it did, in its own words; a run of an older lakebed does not say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GcState:
    """The run record. `marks` and `runs` are newest first."""

    lease: Lease | None = None
    last_token: int = 0
    last_started_at: Instant = Instant(0)
    marks: tuple[Mark, ...] = ()
    settled_at: Instant = Instant(0)
    """Whatever was condemned by an attempt that began no later than this stays condemned: its mark was published and
    is no longer listed, or nobody knows any more."""
    runs: tuple[Run, ...] = ()
