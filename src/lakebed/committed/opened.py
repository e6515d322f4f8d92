"""`OpenRange`: one range, or one dataset of a segment, in memory, usually mapped, and point reads of it.

A point read is a binary search on the raw key column: Arrow's own scalars cost
a microsecond each, so offsets and bytes are read through memoryviews, and every
16th key is kept as a Python object for the first steps.
"""

from bisect import bisect_right

import numpy as np
import pyarrow as pa

from lakebed.env.clock import Instant
from lakebed.format.columns import column
from lakebed.format.identity import decode_metadata
from lakebed.limits import KIB
from lakebed.model.entries import Change, Entry, Tombstone
from lakebed.model.ids import Path

_STEP = 16
# What the objects around the columns take: of a table with one row, nearly all.
_OBJECTS_BYTES = 4 * KIB


class OpenRange:
    """An entry or change block, one array a column, that can be searched."""

    __slots__ = ("_index", "block", "size_bytes")

    def __init__(self, block: pa.Table) -> None:
        self.block = block
        self.size_bytes: int = block.nbytes + _OBJECTS_BYTES
        self._index: _Index | None = None

    def find(self, path: str) -> Entry | None:
        """Return the entry of `path`, or None."""
        index = self._indexed()
        key = path.encode()
        row = index.position(key)
        return index.entry(row, path) if index.holds(row, key) else None

    def find_change(self, path: str) -> Change | None:
        """Return the change of `path`, or None; the block is one of changes."""
        index = self._indexed()
        key = path.encode()
        row = index.position(key)
        if not index.holds(row, key):
            return None
        if column(self.block, "deleted")[row].as_py():
            return Tombstone(path=Path(path))
        return index.entry(row, path)

    def position(self, key: bytes) -> int:
        """Return how many rows have a smaller key: the row of the first that has not."""
        return self._indexed().position(key)

    def between(self, start: bytes, stop: bytes | None) -> pa.Table:
        """Return the rows with start <= key < stop (None: to the end), without copying."""
        first = self.position(start) if start else 0
        last = self.position(stop) if stop is not None else self.block.num_rows
        return self.block.slice(first, max(0, last - first))

    def _indexed(self) -> "_Index":
        # Built on the first search: a range that is only scanned needs none.
        if self._index is None:
            self._index = _Index(self.block)
        return self._index


class _Index:
    """Raw views of the columns, and every 16th key."""

    __slots__ = ("_data", "_mtimes", "_offsets", "_rows", "_sizes", "_sparse", "_texts")

    def __init__(self, block: pa.Table) -> None:
        keys = column(block, "key")
        self._rows = len(keys)
        self._offsets, self._data = _text_views(keys)
        self._sizes = _number_view(column(block, "size"))
        self._mtimes = _number_view(column(block, "mtime"))
        self._texts = [
            _text_views(column(block, name)) for name in ("address", "checksum", "content_type", "metadata")
        ]
        every = pa.array(np.arange(0, self._rows, _STEP))
        self._sparse: list[bytes] = keys.take(every).cast(pa.binary()).to_pylist()

    def position(self, key: bytes) -> int:
        group = bisect_right(self._sparse, key)
        if group == 0:
            return 0
        # The row of sparse key `group - 1` is at most `key`, that of `group` greater.
        low, high = (group - 1) * _STEP, min(group * _STEP, self._rows)
        offsets, data = self._offsets, self._data
        while low < high:
            middle = (low + high) // 2
            if data[offsets[middle] : offsets[middle + 1]].tobytes() < key:
                low = middle + 1
            else:
                high = middle
        return low

    def holds(self, row: int, key: bytes) -> bool:
        if row == self._rows:
            return False
        return self._data[self._offsets[row] : self._offsets[row + 1]] == key

    def entry(self, row: int, path: str) -> Entry:
        address, checksum, content_type, metadata = [
            str(data[offsets[row] : offsets[row + 1]], "utf-8") for offsets, data in self._texts
        ]
        return Entry(
            path=Path(path),
            address=address,
            checksum=checksum,
            size_bytes=self._sizes[row],
            mtime=Instant(self._mtimes[row]),
            content_type=content_type,
            metadata=decode_metadata(metadata),
        )


def _text_views(array: pa.Array) -> tuple["memoryview[int]", memoryview]:
    _, offsets, data = array.buffers()
    start = array.offset
    spans = memoryview(offsets).cast("B").cast("i")[start : start + len(array) + 1]
    return spans, memoryview(data if data is not None else b"").cast("B")


def _number_view(array: pa.Array) -> "memoryview[int]":
    return memoryview(array.buffers()[1]).cast("B").cast("q")[array.offset : array.offset + len(array)]
