"""The hash of a block's rows: what names a range, and what diff and merge compare.

Equal hashes mean equal rows, in every column, address and time included. The
hash is over values, not over the bytes of any file, so a new Parquet writer
changes nothing; and not over how a table is sliced or chunked. It is stored
for ever, so it never changes:

    column  = sha256( name, 0x00, number of rows (u64), lengths of the texts (u32 each), their bytes )
              sha256( name, 0x00, number of rows (u64), the numbers (i64 each) )
              sha256( name, 0x00, number of rows (u64), 0x00 or 0x01 for each truth value )
    rows    = sha256( "lakebed-rows-1", 0x00, column, column, … in the schema's order )

All numbers are little-endian.
"""

import hashlib
import struct
from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise

import numpy as np
import pyarrow as pa

from lakebed.format.blocks import CHANGE_SCHEMA, ENTRY_SCHEMA
from lakebed.format.columns import column, mask, text_buffers

_TAG = b"lakebed-rows-1\x00"
_COUNT = struct.Struct("<Q")


def range_hash(block: pa.Table) -> str:
    """Return the hash of an entry block as 64 hex digits."""
    return rows_hash(block, ENTRY_SCHEMA.names)


def changes_hash(block: pa.Table) -> str:
    """Return the hash of a change block as 64 hex digits."""
    return rows_hash(block, CHANGE_SCHEMA.names)


def changes_hashes(block: pa.Table, counts: Sequence[int]) -> list[str]:
    """Return what `changes_hash` would for each of consecutive parts of a block, which have so many rows.

    For many small parts: what Arrow takes for each column is then spent once, not for each of them.
    """
    if len(counts) == 1:
        return [changes_hash(block)]
    bounds = list(pairwise(accumulate(counts, initial=0)))
    digests = [hashlib.sha256(_TAG) for _ in counts]
    for name in CHANGE_SCHEMA.names:
        values = column(block, name)
        for digest, part in zip(digests, _part_digests(name, values, bounds), strict=True):
            digest.update(part)
    return [digest.hexdigest() for digest in digests]


def rows_hash(table: pa.Table, names: Sequence[str]) -> str:
    """Return the hash over these columns of a table of texts, 64-bit numbers and truth values."""
    digest = hashlib.sha256(_TAG)
    for name in names:
        digest.update(_column_digest(name, table.column(name)))
    return digest.hexdigest()


def _part_digests(name: str, values: pa.Array, bounds: Sequence[tuple[int, int]]) -> Iterator[bytes]:
    """Yield what `_column_digest` would for each part of a column."""
    tag = name.encode() + b"\x00"
    if pa.types.is_int64(values.type) or pa.types.is_boolean(values.type):
        is_number = pa.types.is_int64(values.type)
        whole = values.to_numpy().astype("<i8") if is_number else mask(values).astype(np.uint8)
        width, content = whole.itemsize, memoryview(whole.tobytes())
        for start, stop in bounds:
            digest = hashlib.sha256(tag + _COUNT.pack(stop - start))
            digest.update(content[start * width : stop * width])
            yield digest.digest()
        return
    offsets, data = text_buffers(values)
    lengths = memoryview(np.diff(offsets).astype("<u4").tobytes())
    places, texts = offsets.tolist(), data.data
    for start, stop in bounds:
        digest = hashlib.sha256(tag + _COUNT.pack(stop - start))
        digest.update(lengths[start * 4 : stop * 4])
        digest.update(texts[places[start] : places[stop]])
        yield digest.digest()


def _column_digest(name: str, values: pa.ChunkedArray) -> bytes:
    digest = hashlib.sha256(name.encode() + b"\x00" + _COUNT.pack(len(values)))
    if pa.types.is_int64(values.type):
        for chunk in values.chunks:
            digest.update(np.ascontiguousarray(chunk.to_numpy(), "<i8").data)
        return digest.digest()
    if pa.types.is_boolean(values.type):
        for chunk in values.chunks:
            digest.update(mask(chunk).astype(np.uint8).data)
        return digest.digest()
    texts = [text_buffers(chunk) for chunk in values.chunks]
    for offsets, _ in texts:
        digest.update(np.diff(offsets).astype("<u4").data)
    for offsets, data in texts:
        digest.update(data[offsets[0] : offsets[-1]].data)
    return digest.digest()
