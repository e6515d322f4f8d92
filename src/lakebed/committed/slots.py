"""Which sorted keys belong to which range of a tree. Pure; one step for each range that is met."""

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from lakebed.committed.tree import Tree
from lakebed.format.search import count_up_to


@dataclass(frozen=True, slots=True)
class Slot:
    """Rows `start` to `stop` go to the range `index`; the one after the last range takes what is greater."""

    index: int
    start: int
    stop: int


def slots(tree: Tree, block: pa.Table, *, first: int = 0) -> Iterator[Slot]:
    """Yield the slots that rows of a block, sorted by `key`, fall into, from range `first` on."""
    keys, start, index = block.column("key"), 0, first
    while start < block.num_rows:
        index = tree.seek(keys[start].as_py().encode(), start=index)
        if index == len(tree.ranges):
            yield Slot(index, start, block.num_rows)
            return
        stop = start + count_up_to(block.slice(start), tree.ranges[index].max_key)
        yield Slot(index, start, stop)
        start, index = stop, index + 1
