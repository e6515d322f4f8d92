"""`Import`: objects that lie elsewhere, brought into a branch without copying them."""

from collections.abc import Callable

from lakebed.client.replies import CommitInfo, ImportStatus
from lakebed.client.transport import Transport
from lakebed.errors import ErrorKind, InvalidInputError
from lakebed.limits import CLIENT_POLL_SECONDS, CLIENT_POLL_SECONDS_MAX


class Import:
    """An import that was started; the server goes on with it whether or not anybody watches."""

    def __init__(self, transport: Transport, path: tuple[str, ...], import_id: str) -> None:
        self.id = import_id
        self._transport = transport
        self._path = path

    def status(self) -> ImportStatus:
        """Return how far it is."""
        return self._transport.get(ImportStatus, *self._path, query={"id": self.id})

    def cancel(self) -> None:
        """Stop it; nothing of it becomes visible."""
        self._transport.delete(*self._path, query={"id": self.id})

    def wait(self, *, on_progress: Callable[[ImportStatus], object] | None = None) -> CommitInfo:
        """Return its commit, once there is one.

        Raises:
            InvalidInputError: it failed or was cancelled.
        """
        seconds = CLIENT_POLL_SECONDS
        while True:
            status = self.status()
            if on_progress is not None:
                on_progress(status)
            if status.error is not None:
                raise InvalidInputError(
                    ErrorKind.INVALID_ARGUMENT,
                    f"import {self.id} failed: {status.error.detail or status.error.message}",
                )
            if status.completed and status.commit is not None:
                return status.commit
            self._transport.sleep(seconds)
            seconds = min(2 * seconds, CLIENT_POLL_SECONDS_MAX)
