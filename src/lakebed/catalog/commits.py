"""Commits: made, looked up, listed, and blamed."""

from collections.abc import Sequence
from dataclasses import replace

from lakebed.auth.actions import Action
from lakebed.auth.arns import branch_arn, repository_arn
from lakebed.auth.caller import Caller
from lakebed.catalog.engine import Engine
from lakebed.model.commits import Commit
from lakebed.model.ids import EMPTY_TREE, MetarangeId, parse_path
from lakebed.model.repository import Repository
from lakebed.refs.listing import Listing
from lakebed.refs.log import LogQuery
from lakebed.versioning.commit import CommitRequest


class Commits:
    """Use cases on commits."""

    def __init__(self, engine: Engine, caller: Caller) -> None:
        self._engine = engine
        self._caller = caller

    async def commit(
        self,
        repo_name: str,
        branch: str,
        request: CommitRequest,
        *,
        source_metarange: str | None = None,
        force: bool = False,
    ) -> Commit:
        """Commit what is staged, or the tree of another commit of this repository onto a clean branch."""
        self._caller.require(Action.CREATE_COMMIT, branch_arn(repo_name, branch))
        repo = await self._engine.repo(repo_name)
        name = await self._engine.writable(repo, branch, action="commit", force=force)
        if source_metarange is not None:
            return await self._engine.committer.commit_tree(
                repo, name, request, MetarangeId(source_metarange)
            )
        return await self._engine.committer.commit(repo, name, request)

    async def get(self, repo_name: str, ref: str) -> Commit:
        """Return the commit of a ref expression."""
        self._caller.require(Action.READ_COMMIT, repository_arn(repo_name))
        repo = await self._engine.repo(repo_name)
        return await self._engine.parts.commits.get(
            repo, await self._engine.resolver.resolve_commit(repo, ref)
        )

    async def log(
        self,
        repo_name: str,
        ref: str,
        query: LogQuery,
        *,
        stop_at: str | None = None,
        objects: Sequence[str] = (),
        prefixes: Sequence[str] = (),
    ) -> Listing[Commit]:
        """Return one page of a ref's history; with `objects` or `prefixes`, only commits that changed one of them."""
        self._caller.require(Action.READ_BRANCH, branch_arn(repo_name, ref))
        repo = await self._engine.repo(repo_name)
        start = await self._engine.resolver.resolve_commit(repo, ref)
        if stop_at is not None:
            query = replace(query, stop_at=await self._engine.resolver.resolve_commit(repo, stop_at))

        async def changed(commit: Commit) -> bool:
            return await self._touches(repo, commit, objects, prefixes)

        wanted = changed if objects or prefixes else None
        return await self._engine.log.page(repo, start, query, changed=wanted)

    async def blame(self, repo_name: str, ref: str, path: str) -> Commit | None:
        """Return the last commit that changed `path`, as `ref` shows it; None if it is not there.

        History is followed along first parents; a merge that brought the change in counts as its commit.
        """
        self._caller.require(Action.READ_COMMIT, repository_arn(repo_name))
        repo = await self._engine.repo(repo_name)
        target = parse_path(path)
        current = await self._engine.parts.commits.get(
            repo, await self._engine.resolver.resolve_commit(repo, ref)
        )
        trees = await self._engine.parts.trees_of(repo)
        if await trees.lookup(current.tree, target) is None:
            return None
        while current.parents and not await self._touches(repo, current, (target,), ()):
            current = await self._engine.parts.commits.get(repo, current.parents[0])
        return current

    async def _touches(
        self, repo: Repository, commit: Commit, objects: Sequence[str], prefixes: Sequence[str]
    ) -> bool:
        """Return whether the commit changed one of the paths against its first parent."""
        trees = await self._engine.parts.trees_of(repo)
        parent = EMPTY_TREE
        if commit.parents:
            parent = (await self._engine.parts.commits.get(repo, commit.parents[0])).tree
        if parent == commit.tree:
            return False
        for path in objects:
            async for block in trees.diff(parent, commit.tree, prefix=path):
                if block.column("key")[0].as_py() == path:
                    return True
                break
        for prefix in prefixes:
            async for _ in trees.diff(parent, commit.tree, prefix=prefix):
                return True
        return False
