"""Differences between refs, and merging them away."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass

import pyarrow as pa

from lakebed.auth.actions import Action
from lakebed.auth.arns import branch_arn, repository_arn
from lakebed.auth.caller import Caller
from lakebed.catalog.engine import Engine, require_writable
from lakebed.committed.trees import Trees
from lakebed.errors import ErrorKind, InvalidInputError, UnavailableError
from lakebed.format.diff import DIFF_SCHEMA, mark_conflicts
from lakebed.limits import LIST_PAGE_DEFAULT, LIST_PAGE_MAX, SWAP_ATTEMPTS_MAX
from lakebed.model.ids import CommitId, MetarangeId, parse_branch_name
from lakebed.model.repository import Repository
from lakebed.refs.expressions import View as RefView
from lakebed.refs.merge_base import find_merge_base
from lakebed.refs.resolve import ResolvedRef
from lakebed.staging.reader import LayersMovedError
from lakebed.versioning.merge import Merged, MergeRequest
from lakebed.versioning.paging import BlockPage, Scan, flat_page, folded_page
from lakebed.versioning.uncommitted import diff_staged, diff_uncommitted


@dataclass(frozen=True, slots=True, kw_only=True)
class DiffQuery:
    """Which part of a diff to show."""

    prefix: str = ""
    after: str = ""
    delimiter: str = ""
    amount: int = LIST_PAGE_DEFAULT


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeBase:
    """Two commits and their best common ancestor."""

    source: CommitId
    dest: CommitId
    base: CommitId


class Diffs:
    """Use cases on two refs."""

    def __init__(self, engine: Engine, caller: Caller) -> None:
        self._engine = engine
        self._caller = caller

    async def uncommitted(self, repo_name: str, branch: str, query: DiffQuery) -> BlockPage:
        """Return one page of what is uncommitted on a branch, as diff rows."""
        self._caller.require(Action.LIST_OBJECTS, repository_arn(repo_name))
        repo, name = await self._engine.repo(repo_name), parse_branch_name(branch)
        first_page = query.amount + 1

        async def page() -> BlockPage:
            record = (await self._engine.parts.branches.get(repo, name)).value
            return await _page(
                lambda start: diff_uncommitted(
                    self._engine.parts, repo, record, start=start, prefix=query.prefix, first_page=first_page
                ),
                query,
            )

        return await _settled(page)

    async def diff(
        self, repo_name: str, left: str, right: str, query: DiffQuery, *, two_dot: bool = False
    ) -> BlockPage:
        """Return one page of the differences from `left` to `right`, as diff rows.

        By default (three dots) from their common ancestor to `right`, with `conflict` where `left` changed
        the same path differently since; with `two_dot`, from `left` itself.
        """
        self._caller.require(Action.LIST_OBJECTS, repository_arn(repo_name))
        repo = await self._engine.repo(repo_name)

        async def page() -> BlockPage:
            from_ref = await self._engine.resolver.resolve(repo, left)
            to_ref = await self._engine.resolver.resolve(repo, right)
            if two_dot:
                scan = await self._two_dot(repo, from_ref, to_ref, query)
            else:
                scan = await self._three_dot(repo, from_ref, to_ref, query)
            return await _page(scan, query)

        return await _settled(page)

    async def merge_base(self, repo_name: str, source: str, dest: str) -> MergeBase:
        """Return the commits of two refs and their best common ancestor."""
        self._caller.require(Action.LIST_COMMITS, repository_arn(repo_name))
        repo = await self._engine.repo(repo_name)
        theirs = await self._engine.resolver.resolve_commit(repo, source)
        ours = await self._engine.resolver.resolve_commit(repo, dest)
        base = await find_merge_base(self._engine.parts.commits, repo, theirs, ours)
        return MergeBase(source=theirs, dest=ours, base=base.id)

    async def merge(
        self, repo_name: str, source: str, dest: str, request: MergeRequest, *, force: bool = False
    ) -> Merged:
        """Merge a ref into a branch."""
        self._caller.require(Action.CREATE_COMMIT, branch_arn(repo_name, dest))
        repo = await self._engine.repo(repo_name)
        require_writable(repo, force=force)
        name = parse_branch_name(dest)
        resolved = await self._engine.resolver.resolve(repo, source)
        if resolved.branch == name:
            raise InvalidInputError(
                ErrorKind.INVALID_ARGUMENT, f"branch {name} cannot be merged into itself", about=source
            )
        return await self._engine.merger.merge(repo, resolved.require_commit(), name, request)

    async def _two_dot(
        self, repo: Repository, left: ResolvedRef, right: ResolvedRef, query: DiffQuery
    ) -> Scan:
        against = await self._tree(repo, left)
        parts = self._engine.parts
        if right.record is not None and right.view is RefView.STAGED:
            branch = right.record.value
            return lambda start: diff_staged(
                parts,
                repo,
                branch,
                against=against,
                start=start,
                prefix=query.prefix,
                first_page=query.amount + 1,
            )
        trees = await parts.trees_of(repo)
        to_tree = await self._tree(repo, right)
        return lambda start: trees.diff(against, to_tree, prefix=query.prefix, start=start)

    async def _three_dot(
        self, repo: Repository, left: ResolvedRef, right: ResolvedRef, query: DiffQuery
    ) -> Scan:
        parts = self._engine.parts
        base = await find_merge_base(parts.commits, repo, left.require_commit(), right.require_commit())
        trees = await parts.trees_of(repo)
        left_tree, right_tree = await self._tree(repo, left), await self._tree(repo, right)
        return lambda start: _with_conflicts(
            trees,
            trees.diff(base.tree, right_tree, prefix=query.prefix, start=start),
            base=base.tree,
            left=left_tree,
        )

    async def _tree(self, repo: Repository, resolved: ResolvedRef) -> MetarangeId:
        return (await self._engine.parts.commits.get(repo, resolved.commit_id)).tree


async def _settled(page: Callable[[], Awaitable[BlockPage]]) -> BlockPage:
    """Return the page, read again from the refs on if a layer left its branch while it was being read."""
    for _ in range(SWAP_ATTEMPTS_MAX):
        try:
            return await page()
        except LayersMovedError:
            continue
    raise UnavailableError(ErrorKind.STORE_UNAVAILABLE, "layers go faster than they can be read: try again")


async def _page(scan: Scan, query: DiffQuery) -> BlockPage:
    amount = max(1, min(query.amount, LIST_PAGE_MAX))
    if not query.delimiter:
        return await flat_page(scan, DIFF_SCHEMA, after=query.after, amount=amount)
    return await folded_page(
        scan, DIFF_SCHEMA, prefix=query.prefix, after=query.after, delimiter=query.delimiter, amount=amount
    )


async def _with_conflicts(
    trees: Trees, blocks: AsyncGenerator[pa.Table, None], *, base: MetarangeId, left: MetarangeId
) -> AsyncGenerator[pa.Table, None]:
    """Mark the differences that `left` does not share: it changed the path since `base`, and to something else."""
    async with aclosing(blocks):
        async for block in blocks:
            if left == base:
                yield block
                continue
            keys = block.column("key")
            ours, before = await trees.lookup_many(left, keys), await trees.lookup_many(base, keys)
            yield mark_conflicts(block, before, ours)
