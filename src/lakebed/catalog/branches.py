"""Branches: created, deleted, listed, reset; and the changes of their HEAD."""

from lakebed.auth.actions import Action
from lakebed.auth.arns import branch_arn, object_arn, repository_arn
from lakebed.auth.caller import Caller
from lakebed.catalog.engine import Engine, require_writable
from lakebed.limits import LIST_PAGE_DEFAULT
from lakebed.model.branch import Branch
from lakebed.model.commits import Commit
from lakebed.model.ids import CommitId, parse_branch_name, parse_path
from lakebed.refs.branches import require_not_default
from lakebed.refs.listing import Listing
from lakebed.refs.protection import COMMIT, STAGING_WRITE
from lakebed.versioning.commit import CommitRequest


class Branches:
    """Use cases on branches."""

    def __init__(self, engine: Engine, caller: Caller) -> None:
        self._engine = engine
        self._caller = caller

    async def get(self, repo_name: str, branch: str) -> Branch:
        """Return a branch."""
        self._caller.require(Action.READ_BRANCH, branch_arn(repo_name, branch))
        repo = await self._engine.repo(repo_name)
        return (await self._engine.parts.branches.get(repo, parse_branch_name(branch))).value

    async def create(
        self, repo_name: str, branch: str, source: str, *, hidden: bool = False, force: bool = False
    ) -> CommitId:
        """Create a branch on the commit of the ref `source` and return that commit."""
        self._caller.require(Action.CREATE_BRANCH, branch_arn(repo_name, branch))
        repo = await self._engine.repo(repo_name)
        require_writable(repo, force=force)
        name = parse_branch_name(branch)
        commit_id = await self._engine.resolver.resolve_commit(repo, source)
        await self._engine.parts.branches.create(repo, name, commit_id, hidden=hidden)
        return commit_id

    async def delete(self, repo_name: str, branch: str, *, force: bool = False) -> None:
        """Delete a branch and what is uncommitted on it.

        One that is protected against commits stays: deleted and created anew on another commit, it would be reset.
        """
        self._caller.require(Action.DELETE_BRANCH, branch_arn(repo_name, branch))
        repo = await self._engine.repo(repo_name)
        require_writable(repo, force=force)
        # Without a protection rule it could not be deleted either.
        require_not_default(repo, parse_branch_name(branch))
        name = await self._engine.writable(repo, branch, action=COMMIT, force=force)
        await self._engine.parts.branches.delete(repo, name)

    async def list(
        self,
        repo_name: str,
        *,
        prefix: str = "",
        after: str = "",
        amount: int = LIST_PAGE_DEFAULT,
        show_hidden: bool = False,
    ) -> Listing[Branch]:
        """Return one page of branches by name."""
        self._caller.require(Action.LIST_BRANCHES, repository_arn(repo_name))
        repo = await self._engine.repo(repo_name)
        return await self._engine.parts.branches.list(
            repo, prefix=prefix, after=after, amount=amount, show_hidden=show_hidden
        )

    async def reset(self, repo_name: str, branch: str, *, force: bool = False) -> None:
        """Forget everything uncommitted."""
        self._caller.require(Action.REVERT_BRANCH, branch_arn(repo_name, branch))
        repo = await self._engine.repo(repo_name)
        name = await self._engine.writable(repo, branch, action=STAGING_WRITE, force=force)
        await self._engine.resetter.reset_branch(repo, name)

    async def reset_path(self, repo_name: str, branch: str, path: str, *, force: bool = False) -> None:
        """Bring one path back to its committed state. The right to revert the branch is enough, unless writing it is denied."""
        self._caller.require(Action.REVERT_BRANCH, branch_arn(repo_name, branch))
        self._caller.require_not_denied(Action.WRITE_OBJECT, object_arn(repo_name, path))
        repo = await self._engine.repo(repo_name)
        name = await self._engine.writable(repo, branch, action=STAGING_WRITE, force=force)
        await self._engine.resetter.reset_path(repo, name, parse_path(path))

    async def reset_prefix(self, repo_name: str, branch: str, prefix: str, *, force: bool = False) -> None:
        """Bring every path under `prefix` back to its committed state, unless writing any of it is denied."""
        self._caller.require(Action.REVERT_BRANCH, branch_arn(repo_name, branch))
        self._caller.require_none_denied(Action.WRITE_OBJECT, object_arn(repo_name, prefix))
        repo = await self._engine.repo(repo_name)
        name = await self._engine.writable(repo, branch, action=STAGING_WRITE, force=force)
        await self._engine.resetter.reset_prefix(repo, name, prefix)

    async def hard_reset(self, repo_name: str, branch: str, ref: str, *, force: bool = False) -> Commit:
        """Let a clean branch point at the commit of `ref`; `force` throws what is uncommitted away first.

        A crash between the two leaves the branch clean, on its old commit.
        """
        self._caller.require(Action.REVERT_BRANCH, branch_arn(repo_name, branch))
        repo = await self._engine.repo(repo_name)
        name = await self._engine.writable(repo, branch, action=COMMIT, force=force)
        target = await self._engine.resolver.resolve_commit(repo, ref)
        if force:
            await self._engine.resetter.reset_branch(repo, name)
        return await self._engine.resetter.hard_reset(repo, name, target)

    async def revert(
        self,
        repo_name: str,
        branch: str,
        ref: str,
        request: CommitRequest,
        *,
        parent_number: int = 0,
        force: bool = False,
    ) -> Commit:
        """Undo the commit of `ref` on the branch, as a new commit."""
        self._caller.require(Action.REVERT_BRANCH, branch_arn(repo_name, branch))
        repo = await self._engine.repo(repo_name)
        name = await self._engine.writable(repo, branch, action=COMMIT, force=force)
        commit_id = await self._engine.resolver.resolve_commit(repo, ref)
        return await self._engine.merger.revert(
            repo, name, commit_id, parent_number=parent_number, request=request
        )

    async def cherry_pick(
        self,
        repo_name: str,
        branch: str,
        ref: str,
        request: CommitRequest,
        *,
        parent_number: int = 0,
        force: bool = False,
    ) -> Commit:
        """Do what the commit of `ref` did once more on the branch, as a new commit."""
        self._caller.require(Action.CREATE_COMMIT, branch_arn(repo_name, branch))
        repo = await self._engine.repo(repo_name)
        name = await self._engine.writable(repo, branch, action=COMMIT, force=force)
        commit_id = await self._engine.resolver.resolve_commit(repo, ref)
        return await self._engine.merger.cherry_pick(
            repo, name, commit_id, parent_number=parent_number, request=request
        )
