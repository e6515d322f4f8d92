"""`Adoption`: a namespace whose database is lost, on its way to becoming a repository again."""

from collections.abc import Callable

import msgspec

from lakebed.client.errors import error_of
from lakebed.client.replies import AdoptionResult, AdoptionStatus
from lakebed.client.transport import Transport
from lakebed.limits import CLIENT_POLL_SECONDS, CLIENT_POLL_SECONDS_MAX


class Adoption:
    """An adoption that was started; the server goes on with it whether or not anybody waits."""

    def __init__(self, transport: Transport, repository: str, task_id: str) -> None:
        self.id = task_id
        self.repository = repository
        self._transport = transport

    def status(self) -> AdoptionStatus:
        """Return how far it is."""
        return self._transport.get(
            AdoptionStatus, "repositories", self.repository, "adoption", query={"task_id": self.id}
        )

    def wait(self, *, on_progress: Callable[[int], object] = lambda _done: None) -> AdoptionResult:
        """Return what came back and what did not, once the repository is live.

        Raises:
            LakebedError: it failed. The same adoption, started again, goes on.
        """
        seconds = CLIENT_POLL_SECONDS
        while True:
            status = self.status()
            on_progress(status.progress)
            if status.error is not None:
                said = msgspec.json.encode({"message": status.error})
                raise error_of(409, said, kind=status.error_kind, asked=f"adoption {self.id}")
            if status.result is not None:
                return status.result
            self._transport.sleep(seconds)
            seconds = min(2 * seconds, CLIENT_POLL_SECONDS_MAX)
