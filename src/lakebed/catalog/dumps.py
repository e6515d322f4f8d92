"""Refs dumped into a repository's namespace, and restored from there into a bare repository."""

from collections.abc import Callable, Mapping

import msgspec

from lakebed.auth.actions import Action
from lakebed.auth.arns import branch_arn, repository_arn, tag_arn
from lakebed.auth.caller import Caller
from lakebed.catalog.engine import Engine, require_writable
from lakebed.catalog.tasks import Report, Tasks
from lakebed.model.repository import Repository
from lakebed.model.tasks import Task
from lakebed.refs.dump import RefsDump
from lakebed.refs.restore import RefsRestored, UnrestoredRef, require_restored

_DUMP = "dump"
_RESTORE = "restore"


class Dumps:
    """Use cases on dumps: at once, or as a task."""

    def __init__(self, engine: Engine, caller: Caller, tasks: Tasks) -> None:
        self._engine = engine
        self._caller = caller
        self._tasks = tasks

    async def dump(self, repo_name: str) -> RefsDump:
        """Write the branches, tags and commits of a repository into its namespace."""
        for action in (Action.LIST_TAGS, Action.LIST_BRANCHES, Action.LIST_COMMITS):
            self._caller.require(action, repository_arn(repo_name))
        return await self._engine.dumper.dump(await self._engine.repo(repo_name))

    async def restore(self, repo_name: str, dump: RefsDump, *, force: bool = False) -> None:
        """Bring the refs of a dump back into a bare repository.

        Raises:
            ConflictError: `RESTORE_INCOMPLETE`: some refs could not come back; all others are there.
        """
        self._require_restore(repo_name)
        repo = await self._engine.repo(repo_name)
        require_writable(repo, force=force)
        require_restored(repo, await self._restore(repo, dump))

    async def start_dump(self, repo_name: str) -> Task:
        """Begin to dump."""
        for action in (Action.LIST_TAGS, Action.LIST_BRANCHES, Action.LIST_COMMITS):
            self._caller.require(action, repository_arn(repo_name))
        repo = await self._engine.repo(repo_name)

        async def work(report: Report) -> Mapping[str, str]:
            dump = await self._engine.dumper.dump(repo, report=report)
            return {"commits": dump.commits, "branches": dump.branches, "tags": dump.tags}

        return await self._tasks.start(repo, _DUMP, work)

    async def start_restore(self, repo_name: str, dump: RefsDump, *, force: bool = False) -> Task:
        """Begin to restore."""
        self._require_restore(repo_name)
        repo = await self._engine.repo(repo_name)
        require_writable(repo, force=force)

        async def work(report: Report) -> Mapping[str, str]:
            restored = await self._restore(repo, dump, report)
            return {
                "commits": str(restored.commits),
                "branches": str(restored.branches),
                "tags": str(restored.tags),
                "unrestored": msgspec.json.encode(restored.unrestored).decode(),
            }

        return await self._tasks.start(repo, _RESTORE, work)

    def _require_restore(self, repo_name: str) -> None:
        """Refuse a caller who may not create refs, or is denied any of them: a dump may hold each."""
        for action in (Action.CREATE_TAG, Action.CREATE_BRANCH, Action.CREATE_COMMIT):
            self._caller.require(action, repository_arn(repo_name))
            self._caller.require_none_denied(action, branch_arn(repo_name, ""))
            self._caller.require_none_denied(action, tag_arn(repo_name, ""))

    async def _restore(
        self, repo: Repository, dump: RefsDump, report: Callable[[int], None] = lambda _commits: None
    ) -> RefsRestored:
        # Refs of the past may name what was garbage until now: no sweep may go on, and no mark count that has not seen
        # them.
        await self._engine.gc.discard_restored(repo)
        restored = await self._engine.dumper.restore(repo, dump, report=report)
        await self._engine.gc.discard_restored(repo)
        return restored

    async def dump_status(self, repo_name: str, task_id: str) -> Task:
        """Return how a dump goes."""
        for action in (Action.LIST_TAGS, Action.LIST_BRANCHES, Action.LIST_COMMITS):
            self._caller.require(action, repository_arn(repo_name))
        return await self._tasks.get(await self._engine.repo(repo_name), task_id, kind=_DUMP)

    async def restore_status(self, repo_name: str, task_id: str) -> Task:
        """Return how a restore goes."""
        for action in (Action.CREATE_TAG, Action.CREATE_BRANCH, Action.CREATE_COMMIT):
            self._caller.require(action, repository_arn(repo_name))
        return await self._tasks.get(await self._engine.repo(repo_name), task_id, kind=_RESTORE)


def restored_of(task: Task) -> RefsRestored:
    """Return what a restore that is done has brought back, and what not."""
    counts = {key: int(task.result.get(key, "0")) for key in ("commits", "branches", "tags")}
    unrestored = msgspec.json.decode(task.result.get("unrestored", "[]"), type=tuple[UnrestoredRef, ...])
    return RefsRestored(**counts, unrestored=unrestored)
