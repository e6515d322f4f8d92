"""`Compaction`: how far the merging of what is staged is, and how to steer it."""

from collections.abc import Sequence

from lakebed.client.replies import (
    BranchCompaction,
    CompactionEpoch,
    CompactionJob,
    CompactionRetried,
    CompactionStarted,
    CompactionState,
)
from lakebed.client.transport import Transport, decode


class Compaction:
    """The compaction of one repository."""

    def __init__(self, transport: Transport, repo: str) -> None:
        self._transport = transport
        self._repo = ("repositories", repo)

    def state(self) -> CompactionState:
        """Return the jobs, and the branches with the most sealed layers."""
        return self._transport.get(CompactionState, *self._repo, "compaction")

    def branch(self, name: str) -> BranchCompaction:
        """Return what of a branch's uncommitted changes is merged and what is not."""
        return self._transport.get(BranchCompaction, *self._repo, "branches", name, "compaction")

    def pause(self) -> None:
        """Begin no more jobs; what runs goes on."""
        self._transport.post(*self._repo, "compaction", "pause", body={}, repeatable=True)

    def resume(self) -> None:
        """Begin jobs again."""
        self._transport.post(*self._repo, "compaction", "resume", body={}, repeatable=True)

    def run(self, branch: str) -> CompactionJob | None:
        """Ask for everything staged on a branch to be merged; return the job, or None if there is nothing to do."""
        answer = self._transport.post(*self._repo, "branches", branch, "compaction", body={}, repeatable=True)
        return decode(answer, CompactionStarted).job

    def raise_epoch(self) -> int:
        """Say that the database was restored from a copy; return the epoch of all tokens from now on."""
        answer = self._transport.post(*self._repo, "compaction", "epoch", body={})
        return decode(answer, CompactionEpoch).epoch

    def retry(self, jobs: Sequence[str] | None = None, *, max_failures: int | None = None) -> int:
        """Try parked jobs again (None: all of them), and return how many they are."""
        body = {"jobs": list(jobs) if jobs is not None else None, "max_failures": max_failures}
        answer = self._transport.post(*self._repo, "compaction", "retry", body=body)
        return decode(answer, CompactionRetried).retried
