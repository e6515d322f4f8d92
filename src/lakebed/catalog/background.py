"""Commits and merges that outlive the request that asked for them.

What is wrong with the request is said at once; how it ends is in the task's record.
"""

from collections.abc import Mapping

from lakebed.auth.actions import Action
from lakebed.auth.arns import branch_arn
from lakebed.auth.caller import Caller
from lakebed.catalog.commits import Commits
from lakebed.catalog.diffs import Diffs
from lakebed.catalog.engine import Engine
from lakebed.catalog.tasks import Report, Tasks
from lakebed.model.commits import Commit
from lakebed.model.ids import CommitId, parse_branch_name
from lakebed.model.tasks import Task
from lakebed.versioning.commit import CommitRequest
from lakebed.versioning.merge import MergeRequest

_COMMIT = "commit"
_MERGE = "merge"


class Background:
    """Use cases on commits and merges as tasks."""

    def __init__(self, engine: Engine, caller: Caller, tasks: Tasks) -> None:
        self._engine = engine
        self._caller = caller
        self._tasks = tasks

    async def start_commit(
        self, repo_name: str, branch: str, request: CommitRequest, *, force: bool = False
    ) -> Task:
        """Begin to commit what is staged."""
        self._caller.require(Action.CREATE_COMMIT, branch_arn(repo_name, branch))
        repo = await self._engine.repo(repo_name)
        name = await self._engine.writable(repo, branch, action="commit", force=force)
        await self._engine.parts.branches.get(repo, name)

        async def work(_report: Report) -> Mapping[str, str]:
            made = await Commits(self._engine, self._caller).commit(repo_name, branch, request, force=force)
            return {"commit_id": made.id}

        return await self._tasks.start(repo, _COMMIT, work, branch=name)

    async def commit_status(self, repo_name: str, branch: str, task_id: str) -> Task:
        """Return how a commit goes."""
        self._caller.require(Action.CREATE_COMMIT, branch_arn(repo_name, branch))
        return await self._tasks.get(await self._engine.repo(repo_name), task_id, kind=_COMMIT, branch=branch)

    async def start_merge(
        self, repo_name: str, source: str, dest: str, request: MergeRequest, *, force: bool = False
    ) -> Task:
        """Begin to merge a ref into a branch."""
        self._caller.require(Action.CREATE_COMMIT, branch_arn(repo_name, dest))
        repo = await self._engine.repo(repo_name)
        await self._engine.parts.branches.get(repo, parse_branch_name(dest))
        await self._engine.resolver.resolve(repo, source)

        async def work(_report: Report) -> Mapping[str, str]:
            merged = await Diffs(self._engine, self._caller).merge(
                repo_name, source, dest, request, force=force
            )
            return {"commit_id": merged.commit.id}

        return await self._tasks.start(repo, _MERGE, work, branch=dest)

    async def merge_status(self, repo_name: str, dest: str, task_id: str) -> Task:
        """Return how a merge goes."""
        self._caller.require(Action.CREATE_COMMIT, branch_arn(repo_name, dest))
        return await self._tasks.get(await self._engine.repo(repo_name), task_id, kind=_MERGE, branch=dest)

    async def commit_of(self, repo_name: str, task: Task) -> Commit:
        """Return the commit that a task of this caller's has made."""
        repo = await self._engine.repo(repo_name)
        return await self._engine.parts.commits.get(repo, CommitId(task.result["commit_id"]))
