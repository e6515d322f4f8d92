"""Imports: started, watched, cancelled.

A prefix import replaces everything below its destination by everything below its source. So it asks for the right to
write and to delete all that begins with the destination, and to import all that begins with the source. A policy that
denies any of it, however deep, refuses the import.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace

from lakebed.auth.actions import Action
from lakebed.auth.arns import branch_arn, namespace_arn, object_arn
from lakebed.auth.caller import Caller
from lakebed.catalog.engine import Engine
from lakebed.catalog.tasks import Report, Tasks
from lakebed.model.tasks import Task
from lakebed.refs.protection import COMMIT, STAGING_WRITE
from lakebed.versioning.commit import CommitRequest
from lakebed.versioning.importing import ImportKind, ImportPath

_KIND = "import"


class Imports:
    """Use cases on imports."""

    def __init__(self, engine: Engine, caller: Caller, tasks: Tasks) -> None:
        self._engine = engine
        self._caller = caller
        self._tasks = tasks

    async def start(
        self,
        repo_name: str,
        branch: str,
        paths: Sequence[ImportPath],
        request: CommitRequest,
        *,
        force: bool = False,
    ) -> Task:
        """Begin to import `paths` into the branch; what is wrong with them is said at once."""
        for each in paths:
            self._require(repo_name, each)
            await asyncio.sleep(0)  # Each takes a millisecond for every deny with wildcards.
        self._caller.require(Action.CREATE_COMMIT, branch_arn(repo_name, branch))
        engine = self._engine
        repo = await engine.repo(repo_name)
        # It does both at once: objects come to the branch, and a commit.
        name = await engine.writable(repo, branch, action=STAGING_WRITE, force=force)
        name = await engine.writable(repo, branch, action=COMMIT, force=force)
        await engine.parts.branches.get(repo, name)
        for path, source in await engine.importer.check(paths):
            if source.file is not None:
                # Where symbolic links lead: a policy may name that place, and not this one.
                self._require_source(replace(path, address=f"local://{source.file}"))

        async def work(report: Report) -> Mapping[str, str]:
            commit = await engine.importer.run(repo, name, paths, request, progress=report)
            return {"commit_id": commit.id, "metarange_id": commit.tree}

        return await self._tasks.start(repo, _KIND, work, branch=name)

    async def status(self, repo_name: str, branch: str, task_id: str) -> Task:
        """Return how an import goes."""
        self._caller.require(Action.READ_BRANCH, branch_arn(repo_name, branch))
        return await self._tasks.get(await self._engine.repo(repo_name), task_id, kind=_KIND, branch=branch)

    async def cancel(self, repo_name: str, branch: str, task_id: str) -> None:
        """Stop an import; nothing of it becomes visible."""
        self._caller.require(Action.IMPORT_CANCEL, branch_arn(repo_name, branch))
        await self._tasks.cancel(await self._engine.repo(repo_name), task_id, kind=_KIND, branch=branch)

    def _require(self, repo_name: str, path: ImportPath) -> None:
        self._require_source(path)
        destination = object_arn(repo_name, path.destination)
        if path.kind is ImportKind.OBJECT:
            self._caller.require(Action.WRITE_OBJECT, destination)
            return
        self._caller.require_all(Action.WRITE_OBJECT, destination)
        self._caller.require_all(Action.DELETE_OBJECT, destination)

    def _require_source(self, path: ImportPath) -> None:
        if path.kind is ImportKind.OBJECT:
            self._caller.require(Action.IMPORT_FROM_STORAGE, namespace_arn(path.address))
            return
        # A local source is a folder; of an object store all keys count that begin so.
        address = f"{path.address.removesuffix('/')}/" if path.address.startswith("local:") else path.address
        self._caller.require_all(Action.IMPORT_FROM_STORAGE, namespace_arn(address))
