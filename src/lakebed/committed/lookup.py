"""Point reads of a tree, one path or many."""

from collections.abc import AsyncGenerator
from contextlib import aclosing

import pyarrow as pa

from lakebed.committed.pipeline import in_order
from lakebed.committed.reader import TreeReader
from lakebed.committed.slots import Slot, slots
from lakebed.committed.tree import Tree
from lakebed.env.work import Workers
from lakebed.format.blocks import empty_entries
from lakebed.format.columns import align, column, take
from lakebed.limits import RANGES_AHEAD
from lakebed.model.entries import Entry
from lakebed.model.ids import MetarangeId


async def lookup(reader: TreeReader, tree: MetarangeId, path: str) -> Entry | None:
    """Return the entry of `path`, or None. Waits for nothing if the range is open already."""
    opened = reader.peek_tree(tree)
    if opened is None:
        opened = await reader.tree(tree)
    index = opened.seek(path.encode())
    if index == len(opened.ranges) or path < opened.ranges[index].min_key:
        return None
    info = opened.ranges[index]
    found = reader.peek(info)
    if found is None:
        found = await reader.range(info)
    return found.find(path)


async def lookup_many(reader: TreeReader, workers: Workers, tree: Tree, wanted: pa.Table) -> pa.Table:
    """Return the entries whose keys are in the sorted `key` column of `wanted`."""

    async def met() -> AsyncGenerator[Slot, None]:
        for slot in slots(tree, wanted):
            if slot.index < len(tree.ranges):
                yield slot

    async def find(slot: Slot) -> pa.Table:
        opened = await reader.range(tree.ranges[slot.index])
        keys = wanted.slice(slot.start, slot.stop - slot.start)
        return await workers.run(_pick, opened.block, keys)

    async with aclosing(in_order(met(), find, ahead=RANGES_AHEAD)) as found:
        blocks = [block async for block in found]
    return pa.concat_tables([empty_entries(), *blocks])


def _pick(block: pa.Table, wanted: pa.Table) -> pa.Table:
    rows = align(column(wanted, "key"), column(block, "key"))
    return take(block, rows[rows >= 0])
