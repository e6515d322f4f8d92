"""Imports: started, watched, cancelled."""

from collections.abc import Mapping, Sequence

from lakebed.auth.actions import Action
from lakebed.auth.arns import branch_arn, namespace_arn, object_arn
from lakebed.auth.caller import Caller
from lakebed.catalog.engine import Engine, require_writable
from lakebed.catalog.tasks import Report, Tasks
from lakebed.model.ids import parse_branch_name
from lakebed.model.tasks import Task
from lakebed.versioning.commit import CommitRequest
from lakebed.versioning.importing import ImportPath

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
            self._caller.require(Action.IMPORT_FROM_STORAGE, namespace_arn(each.address))
            self._caller.require(Action.WRITE_OBJECT, object_arn(repo_name, each.destination))
        self._caller.require(Action.CREATE_COMMIT, branch_arn(repo_name, branch))
        engine = self._engine
        repo = await engine.repo(repo_name)
        require_writable(repo, force=force)
        name = parse_branch_name(branch)
        await engine.parts.branches.get(repo, name)
        await engine.importer.check(paths)

        async def work(report: Report) -> Mapping[str, str]:
            commit = await engine.importer.run(repo, name, paths, request, progress=report)
            return {"commit_id": commit.id, "metarange_id": commit.tree}

        return await self._tasks.start(repo, _KIND, work)

    async def status(self, repo_name: str, branch: str, task_id: str) -> Task:
        """Return how an import goes."""
        self._caller.require(Action.READ_BRANCH, branch_arn(repo_name, branch))
        return await self._tasks.get(await self._engine.repo(repo_name), task_id, kind=_KIND)

    async def cancel(self, repo_name: str, branch: str, task_id: str) -> None:
        """Stop an import; nothing of it becomes visible."""
        self._caller.require(Action.IMPORT_CANCEL, branch_arn(repo_name, branch))
        await self._tasks.cancel(await self._engine.repo(repo_name), task_id, kind=_KIND)
