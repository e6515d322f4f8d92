"""`Refs`: dumps of a repository's branches, tags and commits, and how they are restored."""

from collections.abc import Callable
from typing import TypeVar

from lakebed.client.replies import DumpStatus, RefsManifest, RestoreStatus, TaskId
from lakebed.client.transport import Transport, decode
from lakebed.errors import ConflictError, ErrorKind, UnavailableError
from lakebed.limits import CLIENT_POLL_SECONDS, CLIENT_POLL_SECONDS_MAX

S = TypeVar("S", DumpStatus, RestoreStatus)

OnProgress = Callable[[int], object]
"""Hears how many commits were written so far."""


class Refs:
    """The refs of one repository as a whole. The server goes on with a task whether or not anybody waits."""

    def __init__(self, transport: Transport, repo: str) -> None:
        self._transport = transport
        self._repo = repo

    def dump(self, *, on_progress: OnProgress = lambda _commits: None) -> RefsManifest:
        """Write all refs and commits into the repository's namespace; return the names of the files.

        Raises:
            UnavailableError: `OUTCOME_UNKNOWN`: the dump failed. Nothing is lost: start another.
        """
        started = decode(self._transport.post(*self._path("dump")), TaskId)
        status = self._wait(DumpStatus, "dump", started.id, on_progress)
        if status.refs is None:
            raise UnavailableError(
                ErrorKind.OUTCOME_UNKNOWN,
                f"dump {started.id} of {self._repo} failed: {status.detail or status.error}",
            )
        return status.refs

    def restore(
        self,
        manifest: RefsManifest,
        *,
        force: bool = False,
        on_progress: OnProgress = lambda _commits: None,
    ) -> RestoreStatus:
        """Bring the refs of a dump in the namespace back into a bare repository. Repeat it to go on after a failure.

        The answer lists refs that could not come back.

        Raises:
            ConflictError: `RESTORE_INCOMPLETE`: the restore failed as a whole.
        """
        body = {
            "commits_meta_range_id": manifest.commits_meta_range_id,
            "branches_meta_range_id": manifest.branches_meta_range_id,
            "tags_meta_range_id": manifest.tags_meta_range_id,
            "force": force,
        }
        started = decode(self._transport.post(*self._path("restore"), body=body), TaskId)
        status = self._wait(RestoreStatus, "restore", started.id, on_progress)
        if status.error is not None and not status.unrestored:
            raise ConflictError(
                ErrorKind.RESTORE_INCOMPLETE,
                f"restore {started.id} of {self._repo} failed: {status.detail or status.error}",
            )
        return status

    def _wait(self, of: type[S], what: str, task_id: str, on_progress: OnProgress) -> S:
        seconds = CLIENT_POLL_SECONDS
        while True:
            status = self._transport.get(of, *self._path(what), query={"task_id": task_id})
            on_progress(status.progress)
            if status.done:
                return status
            self._transport.sleep(seconds)
            seconds = min(2 * seconds, CLIENT_POLL_SECONDS_MAX)

    def _path(self, what: str) -> tuple[str, ...]:
        return ("repositories", self._repo, what)
