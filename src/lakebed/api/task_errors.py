"""Why a task failed: the phrase and the status that its request would have had if it had waited."""

from lakebed.api.errors import ErrorBody
from lakebed.api.phrases import Asked, message_and_detail, status_of
from lakebed.errors import ErrorKind
from lakebed.model.tasks import Task

# A bug of ours: only the server's log says more.
_BUG = 500


def task_error(task: Task, asked: Asked) -> ErrorBody | None:
    """Return what a failed task says; None if it did not fail."""
    if not task.error:
        return None
    if not task.error_kind:
        return ErrorBody(task.error)
    return ErrorBody(*message_and_detail(ErrorKind(task.error_kind), task.error, asked))


def task_status(task: Task, asked: Asked) -> int | None:
    """Return the status of a failed task; None if it did not fail."""
    if not task.error:
        return None
    return status_of(ErrorKind(task.error_kind), asked) if task.error_kind else _BUG
