"""`Task`: long work that a client started and asks about."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from lakebed.env.clock import Instant
from lakebed.model.ids import Nonce


class TaskState(StrEnum):
    """Where a task is."""

    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """What is known of a task. `updated_at` is a sign of life while it runs; `cancel` asks it to stop."""

    id: Nonce
    kind: str
    state: TaskState
    started_at: Instant
    updated_at: Instant
    progress: int = 0
    result: Mapping[str, str] = field(default_factory=dict)
    error: str = ""
    error_kind: str = ""
    cancel: bool = False
    branch: str = ""
    """The branch that it works on, if it is one."""
