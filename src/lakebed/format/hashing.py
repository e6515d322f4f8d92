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
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from lakebed.format.blocks import CHANGE_SCHEMA, ENTRY_SCHEMA
from lakebed.format.columns import mask, text_buffers

_TAG = b"lakebed-rows-1\x00"
_COUNT = struct.Struct("<Q")


def range_hash(block: pa.Table) -> str:
    """Return the hash of an entry block as 64 hex digits."""
    return rows_hash(block, ENTRY_SCHEMA.names)


def changes_hash(block: pa.Table) -> str:
    """Return the hash of a change block as 64 hex digits."""
    return rows_hash(block, CHANGE_SCHEMA.names)


def rows_hash(table: pa.Table, names: Sequence[str]) -> str:
    """Return the hash over these columns of a table of texts, 64-bit numbers and truth values."""
    digest = hashlib.sha256(_TAG)
    for name in names:
        digest.update(_column_digest(name, table.column(name)))
    return digest.hexdigest()


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
