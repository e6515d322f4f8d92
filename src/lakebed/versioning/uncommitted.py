"""What is uncommitted on a branch: its layers compared with the commit below.

A staged row is not yet a difference: the same content may have been uploaded
again, or a path deleted that was never there. Only what is not alike to the committed
row (`format.compare`) counts, for a diff as for the question whether a branch is clean.
"""

from collections.abc import AsyncGenerator, AsyncIterable
from contextlib import aclosing

import pyarrow as pa
import pyarrow.compute as pc

from lakebed.committed.trees import Trees
from lakebed.format.blocks import CHANGE_SCHEMA
from lakebed.format.diff import diff_blocks
from lakebed.format.merge import keep_alike, without_tombstones
from lakebed.limits import SCAN_PAGE_ITEMS
from lakebed.model.branch import Branch
from lakebed.model.diffs import DiffType
from lakebed.model.ids import MetarangeId
from lakebed.model.repository import Repository
from lakebed.staging.record import layers_of
from lakebed.staging.runs import merge_runs
from lakebed.versioning.parts import Parts


async def staged_changes(
    parts: Parts,
    repo: Repository,
    branch: Branch,
    *,
    against: MetarangeId,
    start: str = "",
    prefix: str = "",
    first_page: int = SCAN_PAGE_ITEMS,
) -> AsyncGenerator[pa.Table, None]:
    """Yield what makes the tree `against` into what the branch shows, as change blocks.

    Some of them may change nothing. Mostly `against` is the tree of the branch's commit.
    """
    below = branch.compacted if branch.compacted is not None else await parts.base_tree(repo, branch)
    runs = [parts.staging.reader.scan(repo, branch, start=start, prefix=prefix, first_page=first_page)]
    if below != against:
        trees = await parts.trees_of(repo)
        runs.append(_tree_changes(trees, against, below, start=start, prefix=prefix))
    async with aclosing(merge_runs(runs)) as blocks:
        async for block in blocks:
            yield block


async def diff_staged(
    parts: Parts,
    repo: Repository,
    branch: Branch,
    *,
    against: MetarangeId,
    start: str = "",
    prefix: str = "",
    first_page: int = SCAN_PAGE_ITEMS,
) -> AsyncGenerator[pa.Table, None]:
    """Yield the differences between a tree and what the branch shows, from `start` on, as diff blocks."""
    trees = await parts.trees_of(repo)
    async with aclosing(
        staged_changes(
            parts, repo, branch, against=against, start=start, prefix=prefix, first_page=first_page
        )
    ) as blocks:
        async for changes in blocks:
            found = await trees.lookup_many(against, changes.column("key"))
            block = diff_blocks(found, without_tombstones(changes))
            if block.num_rows:
                yield block


async def diff_uncommitted(
    parts: Parts,
    repo: Repository,
    branch: Branch,
    *,
    start: str = "",
    prefix: str = "",
    first_page: int = SCAN_PAGE_ITEMS,
) -> AsyncGenerator[pa.Table, None]:
    """Yield the differences between the branch's commit and what it shows."""
    base = await parts.base_tree(repo, branch)
    async with aclosing(
        diff_staged(parts, repo, branch, against=base, start=start, prefix=prefix, first_page=first_page)
    ) as blocks:
        async for block in blocks:
            yield block


async def is_clean(parts: Parts, repo: Repository, branch: Branch) -> bool:
    """Return whether nothing uncommitted would change a path."""
    if not layers_of(branch):
        # Whoever made the compacted tree has counted.
        if branch.compacted is None:
            return True
        if branch.compacted_counts is not None:
            return branch.compacted_counts.total == 0
    async with aclosing(diff_uncommitted(parts, repo, branch)) as blocks:
        return await anext(blocks, None) is None


async def alike_kept(
    parts: Parts, trees: Trees, base: MetarangeId, changes: AsyncIterable[pa.Table]
) -> AsyncGenerator[pa.Table, None]:
    """Yield change blocks with the commit's rows in the place of those that are alike to them.

    For changes to a compacted tree, where the row below need not be the commit's.
    """
    async for block in changes:
        committed = await trees.lookup_many(base, block.column("key"))
        yield await parts.workers.run(keep_alike, block, committed) if committed.num_rows else block


async def _tree_changes(
    trees: Trees, left: MetarangeId, right: MetarangeId, *, start: str, prefix: str
) -> AsyncGenerator[pa.Table, None]:
    """Yield the difference between two trees as the changes that make one into the other."""
    async with aclosing(trees.diff(left, right, prefix=prefix, start=start, remember=True)) as blocks:
        async for block in blocks:
            yield diff_as_changes(block)


def diff_as_changes(block: pa.Table) -> pa.Table:
    """Return a diff block as the changes that make its left side into its right side."""
    deleted = pc.equal(block.column("type"), pa.scalar(DiffType.REMOVED.value, pa.string()))
    return block.drop_columns(["type"]).append_column(CHANGE_SCHEMA.field("deleted"), deleted)
