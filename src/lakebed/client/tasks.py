"""`HeadTask`: a commit or merge that the server goes on with, whether or not anybody waits for it."""

from collections.abc import Callable
from typing import Any, Generic, TypeVar

import msgspec

from lakebed.client.errors import error_of
from lakebed.client.replies import TaskStatus
from lakebed.client.transport import Transport
from lakebed.limits import CLIENT_POLL_SECONDS, CLIENT_POLL_SECONDS_MAX

R = TypeVar("R")
T = TypeVar("T")


class HeadTask(Generic[R, T]):
    """A task that was started; `R` is what the server answers when it is done, `T` what `wait` returns."""

    def __init__(
        self,
        transport: Transport,
        path: tuple[str, ...],
        task_id: str,
        *,
        of: type[R],
        made: Callable[[R], T],
        conflict: str | None = None,
    ) -> None:
        self.id = task_id
        self._transport = transport
        self._path = (*path, task_id, "status")
        self._of = of
        self._made = made
        self._conflict = conflict

    def status(self) -> TaskStatus[R]:
        """Return how far it is."""
        kind: Any = TaskStatus
        found: TaskStatus[R] = self._transport.get(kind[self._of], *self._path)
        return found

    def wait(self) -> T:
        """Return what it made, once it is done.

        Raises:
            LakebedError: what the same operation would have raised if it had been waited for.
        """
        seconds = CLIENT_POLL_SECONDS
        while True:
            status = self.status()
            if status.error is not None:
                code = status.status_code or 500
                raise error_of(
                    code,
                    msgspec.json.encode(status.error),
                    kind=self._conflict if code == 409 else None,
                    asked=f"task {self.id}",
                )
            if status.completed and status.result is not None:
                return self._made(status.result)
            self._transport.sleep(seconds)
            seconds = min(2 * seconds, CLIENT_POLL_SECONDS_MAX)
