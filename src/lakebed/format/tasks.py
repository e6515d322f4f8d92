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


_TASK: Final = Codec[_Task]("task", 1, _Task)


def encode_task(task: Task) -> bytes:
    """Return a task as its KV value."""
    return _TASK.seal(
        _Task(
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
    )


def decode_task(data: bytes) -> Task:
    """Return what `encode_task` was given, or raise `CorruptError`."""
    s = _TASK.open(data)
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
    )
