"""Columns of a block as contiguous arrays, and what vectorised code asks of them.

Blocks arrive sliced and in chunks; the code that hashes, cuts and searches them
wants one array a column and its raw buffers. Nothing here copies a column that
is in one piece already.
"""

from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakebed.errors import CorruptError, ErrorKind

Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

# Rows copied in one call. A column of one array must stay below 2 GiB, and this many rows of the largest metadata do.
STEP_ROWS = 100_000


# A slice costs some microseconds a column, a copied row tens of nanoseconds.
_RUNS_MAX = 32


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


def take(block: pa.Table, rows: Ints) -> pa.Table:
    """Return these rows, in this order. Few long runs of neighbours are not copied."""
    runs = _long_runs(rows)
    if runs is not None:
        return pa.concat_tables([block.slice(start, count) for start, count in runs])
    if len(rows) <= STEP_ROWS:
        return block.take(pa.array(rows))
    steps = range(0, len(rows), STEP_ROWS)
    return pa.concat_tables([block.take(pa.array(rows[at : at + STEP_ROWS])) for at in steps])


def take_values(values: pa.Array, rows: Ints) -> pa.ChunkedArray | pa.Array:
    """Return these values, in this order. Few long runs of neighbours are not copied."""
    runs = _long_runs(rows)
    if runs is not None:
        return pa.chunked_array([values.slice(start, count) for start, count in runs])
    return values.take(pa.array(rows))


def _long_runs(rows: Ints) -> list[tuple[int, int]] | None:
    """Return the runs of neighbours as start and count, if they are few and long."""
    if len(rows) < _RUNS_MAX * _RUNS_MAX:
        return None
    ends = np.flatnonzero(np.diff(rows) != 1) + 1
    if len(ends) >= _RUNS_MAX:
        return None
    bounds = [0, *ends.tolist(), len(rows)]
    return [(int(rows[start]), stop - start) for start, stop in pairwise(bounds)]


def search(keys: pa.Array, needles: pa.Array) -> Ints:
    """Return for each of the sorted needles how many of the sorted keys are smaller: where it is, or would be."""
    if len(needles) * 8 > len(keys):
        return _search_by_sorting(keys, needles)
    low = np.zeros(len(needles), np.int64)
    high = np.full(len(needles), len(keys), np.int64)
    while (unsettled := low < high).any():
        middle = (low + high) // 2
        probes = keys.take(pa.array(np.where(unsettled, middle, 0)))
        smaller = mask(pc.less(probes, needles)) & unsettled
        low = np.where(smaller, middle + 1, low)
        high = np.where(smaller | ~unsettled, high, middle)
    return low


def _search_by_sorting(keys: pa.Array, needles: pa.Array) -> Ints:
    """The same for many needles: sorting what is nearly sorted beats searching for each."""
    # The sort is stable: a needle comes before a key like it.
    order = pc.sort_indices(pa.concat_arrays([needles, keys])).to_numpy()
    is_key = order >= len(needles)
    found: Ints = np.cumsum(is_key, dtype=np.int64)[~is_key]
    return found


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
    if len(keys) * 8 <= len(others):
        at = search(others, keys)
        return np.where(found_at(others, keys, at), at, -1)
    rows: Ints = pc.fill_null(pc.index_in(keys, value_set=others), -1).to_numpy().astype(np.int64)
    return rows


def mask(array: Any) -> Mask:
    """Return a boolean array without nulls as numpy's."""
    whole = array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
    result: Mask = np.asarray(whole.to_numpy(zero_copy_only=False), dtype=np.bool_)
    return result


def require_rising(keys: pa.Array, *, what: str) -> None:
    """Refuse keys that do not rise strictly.

    Raises:
        CorruptError: they do not: readers search by halves, so such a block is not slow but wrong.
    """
    if not rises(keys):
        raise CorruptError(ErrorKind.KEYS_OUT_OF_ORDER, f"the keys of {what} do not rise strictly")


def rises(keys: pa.Array | pa.ChunkedArray) -> bool:
    """Return whether the keys rise strictly."""
    count = len(keys)
    return count < 2 or pc.all(pc.less(keys.slice(0, count - 1), keys.slice(1))).as_py() is True
