"""Compaction, as operators see and steer it."""

from collections.abc import Sequence
from dataclasses import dataclass

from lakebed.auth.actions import Action
from lakebed.auth.arns import branch_arn, repository_arn
from lakebed.auth.caller import Caller
from lakebed.catalog.engine import Engine
from lakebed.errors import ErrorKind, NotFoundError
from lakebed.model.branch import Branch
from lakebed.model.compaction import Job, Schedule
from lakebed.model.ids import parse_branch_name

# The branches with the most layers: those that matter. The whole list may have a hundred thousand.
_BRANCHES_SHOWN = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionStatus:
    """The jobs of a repository, and the branches with the most sealed layers."""

    schedule: Schedule
    branches: tuple[Branch, ...]
    sealed_layers: int
    """Of all branches."""


class Compaction:
    """Use cases on compaction."""

    def __init__(self, engine: Engine, caller: Caller) -> None:
        self._engine = engine
        self._caller = caller

    async def status(self, repo_name: str) -> CompactionStatus:
        """Return what is done and what waits."""
        self._caller.require(Action.READ_COMPACTION, repository_arn(repo_name))
        repo = await self._engine.repo(repo_name)
        schedule = (await self._engine.compaction.jobs.read(repo)).value
        found = await self._engine.parts.branches.list_by_commit(repo)
        layered = sorted((each for each in found if each.sealed), key=lambda b: (-len(b.sealed), b.name))
        return CompactionStatus(
            schedule=schedule,
            branches=tuple(layered[:_BRANCHES_SHOWN]),
            sealed_layers=sum(len(each.sealed) for each in layered),
        )

    async def branch(self, repo_name: str, branch: str) -> Branch:
        """Return a branch's record: what of it is compacted and what is not."""
        self._caller.require(Action.READ_COMPACTION, branch_arn(repo_name, branch))
        repo = await self._engine.repo(repo_name)
        return (await self._engine.parts.branches.get(repo, parse_branch_name(branch))).value

    async def run(self, repo_name: str, branch: str) -> Job | None:
        """Queue a job for everything staged on a branch; None if there is nothing to do."""
        self._caller.require(Action.CONTROL_COMPACTION, branch_arn(repo_name, branch))
        repo = await self._engine.repo(repo_name)
        return await self._engine.compaction.ask(repo, parse_branch_name(branch))

    async def pause(self, repo_name: str, *, is_paused: bool) -> None:
        """Begin no more jobs in a repository from now on, or do so again."""
        self._caller.require(Action.CONTROL_COMPACTION, repository_arn(repo_name))
        await self._engine.compaction.pause(await self._engine.repo(repo_name), is_paused=is_paused)

    async def raise_epoch(self, repo_name: str) -> int:
        """Say that the database is a restored copy, and return the epoch of all tokens from now on."""
        self._caller.require(Action.CONTROL_COMPACTION, repository_arn(repo_name))
        return await self._engine.compaction.raise_epoch(await self._engine.repo(repo_name))

    async def retry(
        self, repo_name: str, jobs: Sequence[str] | None, *, failures_max: int | None = None
    ) -> int:
        """Try parked jobs again (None: all of them), and return how many they are.

        Raises:
            NotFoundError: `JOB_NOT_FOUND`: none of the named jobs is parked.
        """
        self._caller.require(Action.CONTROL_COMPACTION, repository_arn(repo_name))
        repo = await self._engine.repo(repo_name)
        count = await self._engine.compaction.retry(repo, jobs, failures_max=failures_max)
        if jobs is not None and not count:
            raise NotFoundError(
                ErrorKind.JOB_NOT_FOUND, f"no parked job of {repo_name} is called {', '.join(jobs)}"
            )
        return count
