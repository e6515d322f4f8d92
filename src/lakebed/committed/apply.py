"""A tree with sorted changes applied: only the ranges that changes fall into are read and written."""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass

import pyarrow as pa

from lakebed.committed.pieces import Piece, Whole
from lakebed.committed.pipeline import in_order
from lakebed.committed.reader import TreeReader
from lakebed.committed.slots import slots
from lakebed.committed.tree import Tree
from lakebed.committed.writer import TreeWriter
from lakebed.env.work import Workers
from lakebed.format.blocks import empty_changes, empty_entries
from lakebed.format.merge import apply_changes
from lakebed.limits import RANGES_AHEAD
from lakebed.model.diffs import ChangeCounts
from lakebed.model.ids import Nonce

# Rows that are worked on together: enough that a step is no overhead, few enough that reading, cutting and
# encoding overlap already in a commit of a hundred thousand.
_BLOCK_ROWS = 25_000


@dataclass(frozen=True, slots=True)
class Edit:
    """Changes to the rows of one range (none: they follow the last one) from `start` up to but without `stop`."""

    index: int
    changes: pa.Table
    start: bytes = b""
    stop: bytes | None = None


async def apply(
    reader: TreeReader,
    writer: TreeWriter,
    workers: Workers,
    base: Tree,
    changes: AsyncIterator[pa.Table],
    *,
    nonce: Nonce,
    exact: bool,
) -> tuple[Tree, ChangeCounts]:
    """Store `base` with the changes, in key order over all blocks, and return it and what differs for a user.

    Rows that are alike to those below change nothing, unless `exact`. A range in which nothing changes is kept.
    """
    counts = ChangeCounts()

    async def edit(step: Edit | Whole) -> tuple[Piece, ChangeCounts]:
        if isinstance(step, Whole):
            return step, ChangeCounts()
        if step.index == len(base.ranges):
            return await workers.run(apply_changes, empty_entries(), step.changes)
        info = base.ranges[step.index]
        rows = (await reader.range(info)).between(step.start, step.stop)
        edited, changed = await workers.run(apply_changes, rows, step.changes, exact=exact)
        if edited is rows and edited.num_rows == info.count:
            return Whole(info, base.is_last(step.index)), changed
        return edited, changed

    async def pieces() -> AsyncGenerator[Piece, None]:
        nonlocal counts
        async with aclosing(in_order(plan_edits(base, changes), edit, ahead=RANGES_AHEAD)) as edited:
            async for piece, changed in edited:
                counts = counts + changed
                yield piece

    tree = await writer.build(pieces(), nonce=nonce, known=[base])
    return tree, counts


async def plan_edits(tree: Tree, changes: AsyncIterator[pa.Table]) -> AsyncGenerator[Edit | Whole, None]:
    """Yield in key order what happens to the tree's ranges: taken whole, or edited.

    A range whose changes come in several blocks is edited in as many parts, so that
    no more than a block of changes is held.
    """
    index, start = 0, b""

    def rest() -> Edit | Whole:
        return (
            Edit(index, empty_changes(), start) if start else Whole(tree.ranges[index], tree.is_last(index))
        )

    async for block, is_last in _large_blocks(changes):
        for slot in slots(tree, block, first=index):
            while index < slot.index:
                yield rest()
                index, start = index + 1, b""
            rows = block.slice(slot.start, slot.stop - slot.start)
            stop = None
            if slot.stop == block.num_rows and not is_last and index < len(tree.ranges):
                stop = rows.column("key")[-1].as_py().encode() + b"\x00"
            yield Edit(index, rows, start, stop)
            index, start = (index, stop) if stop is not None else (min(index + 1, len(tree.ranges)), b"")
    while index < len(tree.ranges):
        yield rest()
        index, start = index + 1, b""


async def _large_blocks(blocks: AsyncIterator[pa.Table]) -> AsyncGenerator[tuple[pa.Table, bool], None]:
    """Yield the rows again in blocks of about `_BLOCK_ROWS`, each with whether it is the last."""
    held: list[pa.Table] = []
    rows = 0
    async for block in blocks:
        for at in range(0, block.num_rows, _BLOCK_ROWS):
            if rows >= _BLOCK_ROWS:
                yield pa.concat_tables(held), False
                held, rows = [], 0
            held.append(block.slice(at, _BLOCK_ROWS))
            rows += held[-1].num_rows
    if held:
        yield pa.concat_tables(held), True
