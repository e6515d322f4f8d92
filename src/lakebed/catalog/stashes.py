"""Stashes: made, listed, popped, dropped."""

from lakebed.auth.actions import Action
from lakebed.auth.arns import branch_arn, object_arn, repository_arn
from lakebed.auth.caller import Caller
from lakebed.catalog.engine import Engine, require_writable
from lakebed.model.ids import Nonce
from lakebed.model.metadata import require_short
from lakebed.model.stash import Stash
from lakebed.refs.protection import STAGING_WRITE


class Stashes:
    """Use cases on stashes."""

    def __init__(self, engine: Engine, caller: Caller) -> None:
        self._engine = engine
        self._caller = caller

    async def create(self, repo_name: str, branch: str, *, message: str = "", force: bool = False) -> Stash:
        """Put everything uncommitted on the branch aside."""
        self._caller.require(Action.REVERT_BRANCH, branch_arn(repo_name, branch))
        repo = await self._engine.repo(repo_name)
        name = await self._engine.writable(repo, branch, action=STAGING_WRITE, force=force)
        require_short(message)
        return await self._engine.stashes.stash(repo, name, message=message)

    async def list(self, repo_name: str) -> list[Stash]:
        """Return the stashes of a repository, oldest first."""
        self._caller.require(Action.LIST_OBJECTS, repository_arn(repo_name))
        return await self._engine.stashes.list(await self._engine.repo(repo_name))

    async def pop(
        self, repo_name: str, stash_id: str, *, into: str | None = None, force: bool = False
    ) -> Stash:
        """Lay a stash over a branch: the one it came from unless `into` names another.

        A stash may hold changes and deletions of any path, so the caller needs the right to write and to delete them all.
        """
        self._caller.require_all(Action.WRITE_OBJECT, object_arn(repo_name, ""))
        self._caller.require_all(Action.DELETE_OBJECT, object_arn(repo_name, ""))
        repo = await self._engine.repo(repo_name)
        branch = into or (await self._engine.stashes.get(repo, Nonce(stash_id))).branch
        name = await self._engine.writable(repo, branch, action=STAGING_WRITE, force=force)
        return await self._engine.stashes.pop(repo, Nonce(stash_id), into=name)

    async def drop(self, repo_name: str, stash_id: str, *, force: bool = False) -> Stash:
        """Give a stash up for good: like a reset, for changes that were put aside before."""
        self._caller.require(Action.REVERT_BRANCH, branch_arn(repo_name, "*"))
        repo = await self._engine.repo(repo_name)
        require_writable(repo, force=force)

        def allow(stash: Stash) -> None:
            self._caller.require(Action.REVERT_BRANCH, branch_arn(repo_name, stash.branch))

        return await self._engine.stashes.drop(repo, Nonce(stash_id), allow=allow)
