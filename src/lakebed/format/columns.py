"""Columns of a block as contiguous arrays, and what vectorised code asks of them.

Blocks arrive sliced and in chunks; the code that hashes, cuts and searches them
wants one array a column and its raw buffers. Nothing here copies a column that
is in one piece already.
"""

from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from lakebed.errors import CorruptError, ErrorKind

Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

# Rows copied in one call. A column of one array must stay below 2 GiB, and this many rows of the largest metadata do.
STEP_ROWS = 50_000


def column(block: pa.Table, name: str) -> pa.Array:
    """Return a column as one array."""
    chunks = block.column(name)
    return chunks.chunk(0) if chunks.num_chunks == 1 else chunks.combine_chunks()


def text_buffers(array: pa.Array) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.uint8]]:
    """Return offsets (one more than rows) and bytes of a string or binary array; offsets index those bytes."""
    _, offsets, data = array.buffers()
    if len(array) == 0:
        return np.zeros(1, np.int32), np.zeros(0, np.uint8)
    spans = np.frombuffer(offsets, np.int32)[array.offset : array.offset + len(array) + 1]
    content = np.frombuffer(data, np.uint8) if data is not None else np.zeros(0, np.uint8)
    return spans, content


def contiguous(block: pa.Table) -> pa.Table:
    """Return the block with every column in one array."""
    in_one_piece = all(c.num_chunks == 1 for c in block.columns)
    return block if in_one_piece else block.combine_chunks()


def take(block: pa.Table, rows: Ints) -> pa.Table:
    """Return these rows, in this order."""
    if len(rows) <= STEP_ROWS:
        return block.take(pa.array(rows))
    steps = range(0, len(rows), STEP_ROWS)
    return pa.concat_tables([block.take(pa.array(rows[at : at + STEP_ROWS])) for at in steps])


def search(keys: pa.Array, needles: pa.Array, *, side: Literal["left", "right"] = "left") -> Ints:
    """Return for each needle how many of the sorted `keys` lie before it (with "right": before or at it)."""
    if len(needles) == 0 or len(keys) == 0:
        return np.zeros(len(needles), np.int64)
    found = _series(keys).search_sorted(_series(needles), side=side)
    return found.to_numpy().astype(np.int64)


def found_at(keys: pa.Array, needles: pa.Array, at: Ints) -> Mask:
    """Return which needles stand in `keys` at the rows where `search` placed them."""
    if len(keys) == 0:
        return np.zeros(len(needles), np.bool_)
    inside = at < len(keys)
    return inside & mask(pc.equal(keys.take(pa.array(np.where(inside, at, 0))), needles))


def align(keys: pa.Array, others: pa.Array) -> Ints:
    """Return for each of `keys` its row in `others`, or -1. Both rise strictly."""
    if len(keys) == len(others) and keys.equals(others):
        return np.arange(len(keys), dtype=np.int64)
    if len(others) == 0:
        return np.full(len(keys), -1, np.int64)
    # Few keys are cheaper to look up one by one than to hash all the others for.
    if len(keys) * 8 < len(others):
        at = search(others, keys)
        return np.where(found_at(others, keys, at), at, -1)
    rows: Ints = pc.fill_null(pc.index_in(keys, value_set=others), -1).to_numpy().astype(np.int64)
    return rows


def mask(array: Any) -> Mask:
    """Return a boolean array without nulls as numpy's."""
    result: Mask = np.asarray(array.to_numpy(zero_copy_only=False), dtype=np.bool_)
    return result


def require_rising(keys: pa.Array, *, what: str) -> None:
    """Refuse keys that do not rise strictly.

    Raises:
        CorruptError: they do not: readers search by halves, so such a block is not slow but wrong.
    """
    if not rises(keys):
        raise CorruptError(ErrorKind.KEYS_OUT_OF_ORDER, f"the keys of {what} do not rise strictly")


def rises(keys: pa.Array) -> bool:
    """Return whether the keys rise strictly."""
    count = len(keys)
    return count < 2 or pc.all(pc.less(keys.slice(0, count - 1), keys.slice(1))).as_py() is True


def _series(array: pa.Array) -> pl.Series:
    series = pl.from_arrow(array)
    assert isinstance(series, pl.Series)
    return series
