"""Task records as KV values."""

from typing import Final

from lakebed.env.clock import Instant
from lakebed.format.codec import Codec, Stored
from lakebed.model.ids import Nonce
from lakebed.model.tasks import Task, TaskState


class _Task(Stored):
    id: Nonce
    kind: str
    state: TaskState
    started_at: Instant
    updated_at: Instant
    progress: int
    result: dict[str, str]
    error: str
    error_kind: str
    cancel: bool


class _BranchTask(_Task):
    branch: str = ""


# The second reads both; what is of no branch is written by the first, as it was before tasks knew theirs.
_TASK: Final = Codec[_Task]("task", 1, _Task)
_BRANCH_TASK: Final = Codec[_BranchTask]("task", 1, _BranchTask)


def encode_task(task: Task) -> bytes:
    """Return a task as its KV value."""
    fields = (
        task.id,
        task.kind,
        task.state,
        task.started_at,
        task.updated_at,
        task.progress,
        dict(task.result),
        task.error,
        task.error_kind,
        task.cancel,
    )
    if task.branch:
        return _BRANCH_TASK.seal(_BranchTask(*fields, task.branch))
    return _TASK.seal(_Task(*fields))


def decode_task(data: bytes) -> Task:
    """Return what `encode_task` was given, or raise `CorruptError`."""
    s = _BRANCH_TASK.open(data)
    return Task(
        id=s.id,
        kind=s.kind,
        state=s.state,
        started_at=s.started_at,
        updated_at=s.updated_at,
        progress=s.progress,
        result=s.result,
        error=s.error,
        error_kind=s.error_kind,
        cancel=s.cancel,
        branch=s.branch,
    )
