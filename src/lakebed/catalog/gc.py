"""Runs of garbage collection, as the job that collects asks for them.

A key needs no more than `retention:RunGarbageCollection` and the two `retention:Prepare…` actions to run it: it never
reads an object, a ref or a commit by the API.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from lakebed.auth.actions import Action
from lakebed.auth.arns import repository_arn
from lakebed.auth.caller import Caller
from lakebed.catalog.engine import Engine
from lakebed.catalog.tasks import Report, Tasks
from lakebed.env.clock import Instant
from lakebed.errors import ErrorKind, InvalidInputError, NotFoundError
from lakebed.gc.commit_lists import PreparedCommits, RunToken
from lakebed.gc.state import find_run
from lakebed.gc.uncommitted import PreparedPage
from lakebed.limits import GC_GRACE_SECONDS
from lakebed.model.gc import GcState, Lease, Mark, MarkKind, Run, RunKind
from lakebed.model.lifetimes import Lifetimes
from lakebed.model.repository import Repository
from lakebed.model.tasks import Task

_PREPARE = "preparation of commits"


@dataclass(frozen=True, slots=True, kw_only=True)
class BegunRun:
    """A run that has the lease, and the marks it may build on."""

    repo: Repository
    lease: Lease
    marks: tuple[Mark, ...]
    now: Instant
    lifetimes: Lifetimes


class Collections:
    """Use cases on garbage collection."""

    def __init__(self, engine: Engine, caller: Caller, tasks: Tasks) -> None:
        self._engine = engine
        self._caller = caller
        self._tasks = tasks

    async def begin(
        self,
        repo_name: str,
        kind: RunKind,
        *,
        holder: str = "",
        grace_seconds: float = GC_GRACE_SECONDS,
        takeover: bool = False,
    ) -> BegunRun:
        """Begin a run: only one at a time has a repository's lease.

        Raises:
            ConflictError: `GC_RUNNING`.
        """
        repo = await self._repo(repo_name, Action.RUN_GC)
        await self._engine.agreement.require()
        state = await self._engine.gc.begin(
            repo, kind, holder=holder or self._caller.id, grace_seconds=grace_seconds, takeover=takeover
        )
        assert state.lease is not None, "it has just been given one"
        parts = self._engine.parts
        return BegunRun(
            repo=repo,
            lease=state.lease,
            marks=state.marks,
            now=await parts.kv.now(),
            lifetimes=parts.lifetimes,
        )

    async def renew(self, repo_name: str, of: RunToken) -> tuple[Lease, Instant]:
        """Let a lease last longer; return it, and engine time.

        Raises:
            FencedError: `LEASE_LOST`.
        """
        repo = await self._repo(repo_name, Action.RUN_GC)
        return await self._engine.gc.renew(repo, of), await self._engine.parts.kv.now()

    async def start_sweep(self, repo_name: str, of: RunToken, mark: str) -> None:
        """Make it safe for a run to delete what a mark lists; errors as for `GarbageCollection.start_sweep`."""
        await self._engine.gc.start_sweep(await self._repo(repo_name, Action.RUN_GC), of, mark)

    async def publish(
        self, repo_name: str, of: RunToken, *, kind: MarkKind, counts: Mapping[str, int]
    ) -> Mark:
        """Make a run's mark count: from now on its commits are let go, and a sweep may delete by it.

        Raises:
            FencedError: `LEASE_LOST`.
            ConflictError: nothing is prepared, or it took too long.
        """
        repo = await self._repo(repo_name, Action.RUN_GC)
        return await self._engine.gc.publish(repo, of, kind=kind, counts=counts)

    async def withdraw_marks(self, repo_name: str, of: RunToken) -> None:
        """Let none of the marks count that are published now; errors as for `renew`."""
        await self._engine.gc.withdraw_marks(await self._repo(repo_name, Action.RUN_GC), of)

    async def end(
        self, repo_name: str, of: RunToken, *, outcome: str, counts: Mapping[str, int] | None = None
    ) -> None:
        """Give a lease back; errors as for `renew`."""
        repo = await self._repo(repo_name, Action.RUN_GC)
        await self._engine.gc.end(repo, of, outcome=outcome, counts=counts)

    async def runs(self, repo_name: str) -> tuple[Repository, GcState]:
        """Return a repository, and its runs and marks."""
        repo = await self._repo(repo_name, Action.GET_GC_RUNS)
        return repo, await self._engine.gc.state(repo)

    async def run(self, repo_name: str, run: str) -> tuple[Run, GcState]:
        """Return one run, and all there is.

        Raises:
            NotFoundError: `GC_RUN_NOT_FOUND`.
        """
        _, state = await self.runs(repo_name)
        return find_run(state, run), state

    async def prepare_uncommitted(
        self, repo_name: str, of: RunToken | None, *, continuation: str = ""
    ) -> tuple[Repository, PreparedPage]:
        """Write a page of every address that something uncommitted may refer to."""
        repo = await self._repo(repo_name, Action.PREPARE_GC_UNCOMMITTED)
        return repo, await self._engine.gc.prepare_uncommitted(repo, of, continuation=continuation)

    async def prepare_commits(
        self, repo_name: str, of: RunToken | None
    ) -> tuple[Repository, PreparedCommits]:
        """Write which commits are live; for a run, let go first of what is to expire."""
        repo = await self._repo(repo_name, Action.PREPARE_GC_COMMITS)
        return repo, await self._engine.gc.prepare_commits(repo, of)

    async def start_prepare_commits(self, repo_name: str, of: RunToken | None) -> Task:
        """Begin what `prepare_commits` does."""
        repo = await self._repo(repo_name, Action.PREPARE_GC_COMMITS)

        async def work(_report: Report) -> Mapping[str, str]:
            prepared = await self._engine.gc.prepare_commits(repo, of)
            return {"run": prepared.run, "attempt": prepared.attempt, "roots": prepared.roots}

        return await self._tasks.start(repo, _PREPARE, work)

    async def prepare_commits_status(self, repo_name: str, task_id: str) -> tuple[Repository, Task]:
        """Return how a preparation goes.

        Raises:
            InvalidInputError: `INVALID_ARGUMENT`: there is none of that id. Not the error for what is missing: the peer's
                collector takes that for "there are no rules", and then that nothing is committed.
        """
        repo = await self._repo(repo_name, Action.PREPARE_GC_COMMITS)
        try:
            return repo, await self._tasks.get(repo, task_id, kind=_PREPARE)
        except NotFoundError as error:
            raise InvalidInputError(ErrorKind.INVALID_ARGUMENT, str(error)) from error

    async def _repo(self, repo_name: str, action: Action) -> Repository:
        self._caller.require(action, repository_arn(repo_name))
        return await self._engine.repo(repo_name)


def run_token(run: str | None, token: int | None) -> RunToken | None:
    """Return what a request says of its run: both, or neither.

    Raises:
        InvalidInputError: `INVALID_ARGUMENT`: one without the other. Taken for neither, a run would let nothing go and
            not know it.
    """
    if run is None and token is None:
        return None
    if not run or token is None:
        raise InvalidInputError(ErrorKind.INVALID_ARGUMENT, "run_id and token: give both, or neither")
    return RunToken(run=run, token=token)
