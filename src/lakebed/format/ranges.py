"""Range files: sorted entries as Parquet.

Anyone reads them with Spark, DuckDB or Polars as they are. The order of keys is
checked on both sides of the disk: the writer asserts it, the reader refuses it.
`tests/golden/ranges` holds a file of each version that must be read for ever.
"""

from typing import Final

import pyarrow as pa

from lakebed.errors import CorruptError, ErrorKind
from lakebed.format.blocks import ENTRY_SCHEMA
from lakebed.format.columns import column, require_rising, rises
from lakebed.format.hashing import range_hash
from lakebed.format.parquet import FileKind, decode, encode, open_file

RANGE_FILE: Final = FileKind(
    name="range",
    version=1,
    schema=ENTRY_SCHEMA,
    sort_key="key",
    dictionary=("content_type", "metadata"),
    plain=("identity", "checksum", "size"),
    statistics=("key",),
)


def encode_range(block: pa.Table) -> bytes:
    """Return an entry block, which must not be empty, as a range file."""
    assert block.num_rows > 0, "a range has at least one entry"
    assert rises(block.column("key")), "keys rise strictly"
    return encode(RANGE_FILE, block)


def decode_range(data: bytes, *, expected_hash: str | None = None) -> pa.Table:
    """Return the entry block of a range file.

    Raises:
        CorruptError: not bytes that `encode_range` returned, not the rows of `expected_hash`, or a newer version.
    """
    block = decode(RANGE_FILE, data)
    require_rising(column(block, "key"), what="a range file")
    if expected_hash is not None and range_hash(block) != expected_hash:
        raise CorruptError(ErrorKind.CHECKSUM_MISMATCH, "range file holds other rows than its name says")
    return block


def range_addresses(data: bytes) -> pa.Array:
    """Return the addresses in a range file, without decoding the rest; errors as for `decode_range`."""
    file = open_file(RANGE_FILE, pa.BufferReader(data))
    try:
        # Threads belong to the caller: it decodes several files at once.
        found = column(file.read(columns=["address"], use_threads=False), "address")
    except (pa.ArrowException, OSError, MemoryError, ValueError, OverflowError, KeyError) as error:
        raise CorruptError(ErrorKind.UNREADABLE, f"range file is damaged: {error}") from error
    if found.null_count or not found.type.equals(pa.string()):
        raise CorruptError(ErrorKind.UNREADABLE, "range file without the addresses of its entries")
    return found
