"""`GarbageCollection`: runs of garbage collection, as the job that collects drives them."""

from collections.abc import Mapping
from typing import Literal

import msgspec

from lakebed.client.errors import error_of
from lakebed.client.replies import (
    GcLease,
    GcMark,
    GcRun,
    GcRuns,
    GcRunStarted,
    PreparedCommits,
    PreparedCommitsStatus,
    PreparedUncommitted,
    TaskId,
)
from lakebed.client.transport import Transport, decode
from lakebed.limits import CLIENT_HEAD_TIMEOUT_SECONDS, CLIENT_POLL_SECONDS, CLIENT_POLL_SECONDS_MAX


class GarbageCollection:
    """The garbage collection of one repository.

    Whoever has lost the lease gets a `FencedError` from then on, and must not go on.
    """

    def __init__(self, transport: Transport, repo: str) -> None:
        self._transport = transport
        self._path = ("repositories", repo, "gc")

    def begin(
        self,
        kind: Literal["mark", "sweep"],
        *,
        holder: str = "",
        grace_seconds: float | None = None,
        takeover: bool = False,
    ) -> GcRunStarted:
        """Begin a run.

        Raises:
            ConflictError: `GC_RUNNING`: another run has the lease, and is not to be taken over.
        """
        body: dict[str, object] = {"kind": kind, "holder": holder, "takeover": takeover}
        if grace_seconds is not None:
            body["grace_seconds"] = grace_seconds
        return decode(self._transport.post(*self._path, "runs", body=body), GcRunStarted)

    def renew(self, run: str, token: int) -> GcLease:
        """Let a run's lease last longer."""
        answer = self._transport.post(
            *self._path, "runs", run, "renew", body={"token": token}, repeatable=True
        )
        return decode(answer, GcLease)

    def start_sweep(self, run: str, token: int, mark: str) -> None:
        """Have refs dumped and a sweep announced; after that the run may delete what the mark lists."""
        self._transport.post(
            *self._path,
            "runs",
            run,
            "sweep",
            body={"token": token, "mark": mark},
            repeatable=True,
            timeout_seconds=CLIENT_HEAD_TIMEOUT_SECONDS,
        )

    def prepare_uncommitted(self, run: str, token: int, *, continuation: str = "") -> PreparedUncommitted:
        """Have the next page of uncommitted addresses written; the first without a `continuation`."""
        body = {"run_id": run, "token": token, "continuation_token": continuation}
        answer = self._transport.post(
            *self._path,
            "prepare_uncommited",
            body=body,
            repeatable=True,
            timeout_seconds=CLIENT_HEAD_TIMEOUT_SECONDS,
        )
        return decode(answer, PreparedUncommitted)

    def prepare_commits(self, run: str, token: int) -> PreparedCommits:
        """Have expired commits let go, and written which ones are live; return when that is done.

        Raises:
            LakebedError: it failed. Nothing is known of what is live then.
        """
        body = {"run_id": run, "token": token}
        answer = self._transport.post(*self._path, "prepare_commits", "async", body=body, repeatable=True)
        task, seconds = decode(answer, TaskId).id, CLIENT_POLL_SECONDS
        while True:
            status = self._transport.get(
                PreparedCommitsStatus, *self._path, "prepare_commits", "status", query={"id": task}
            )
            if status.error is not None:
                said = msgspec.json.encode(status.error)
                raise error_of(
                    status.status_code or 500, said, kind=status.error_kind, asked=f"task {status.task_id}"
                )
            if status.completed and status.result is not None:
                return status.result
            self._transport.sleep(seconds)
            seconds = min(2 * seconds, CLIENT_POLL_SECONDS_MAX)

    def publish(
        self,
        run: str,
        token: int,
        kind: Literal["clean", "optimized"],
        *,
        counts: Mapping[str, int] | None = None,
    ) -> GcMark:
        """Make a run's mark count."""
        body = {"token": token, "kind": kind, "counts": dict(counts or {})}
        return decode(
            self._transport.post(*self._path, "runs", run, "marked", body=body, repeatable=True), GcMark
        )

    def withdraw_marks(self, run: str, token: int) -> None:
        """Let none of the published marks count any more."""
        self._transport.post(
            *self._path, "runs", run, "withdraw_marks", body={"token": token}, repeatable=True
        )

    def end(
        self, run: str, token: int, *, outcome: str = "", counts: Mapping[str, int] | None = None
    ) -> None:
        """Give a run's lease back, and say what it did."""
        body = {"token": token, "outcome": outcome, "counts": dict(counts or {})}
        self._transport.post(*self._path, "runs", run, "end", body=body, repeatable=True)

    def runs(self) -> GcRuns:
        """Return the runs that are remembered, and the marks that can be swept."""
        return self._transport.get(GcRuns, *self._path, "runs")

    def run(self, run: str) -> GcRun:
        """Return one run.

        Raises:
            NotFoundError: `GC_RUN_NOT_FOUND`.
        """
        return self._transport.get(GcRun, *self._path, "runs", run)
