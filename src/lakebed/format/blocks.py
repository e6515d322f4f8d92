"""Blocks: entries and changes as Arrow tables, the unit everything that grows with the data works on.

An *entry block* has `ENTRY_SCHEMA`; a *change block* adds `deleted`, whose true
rows are tombstones (their other columns are empty). Both rise strictly by
`key` in the order of UTF-8 bytes, which is Arrow's and Polars' own order of text.
"""

from collections.abc import Iterable, Sequence

import pyarrow as pa

from lakebed.env.clock import Instant
from lakebed.format.identity import decode_metadata, encode_metadata, entry_identity
from lakebed.model.entries import Change, Entry, Tombstone
from lakebed.model.ids import Path

ENTRY_SCHEMA = pa.schema(
    [
        pa.field("key", pa.string(), nullable=False),
        pa.field("address", pa.string(), nullable=False),
        pa.field("checksum", pa.string(), nullable=False),
        pa.field("size", pa.int64(), nullable=False),
        pa.field("mtime", pa.int64(), nullable=False),
        pa.field("content_type", pa.string(), nullable=False),
        pa.field("metadata", pa.string(), nullable=False),
        pa.field("identity", pa.binary(), nullable=False),
    ]
)
"""`mtime` is in microseconds, `metadata` is JSON ("" for none), `identity` 16 bytes."""

CHANGE_SCHEMA = ENTRY_SCHEMA.append(pa.field("deleted", pa.bool_(), nullable=False))

_EMPTY_TOMBSTONE = ("", "", 0, 0, "", "", b"", True)


def entry_block(entries: Iterable[Entry]) -> pa.Table:
    """Return entries, already in key order, as an entry block. A loop per entry: for small inputs only."""
    return _table([(e.path, *_fields(e)) for e in entries], ENTRY_SCHEMA)


def change_block(changes: Iterable[Change]) -> pa.Table:
    """Return changes, already in key order, as a change block. A loop per entry: for small inputs only."""
    rows = [
        (c.path, *_EMPTY_TOMBSTONE) if isinstance(c, Tombstone) else (c.path, *_fields(c), False)
        for c in changes
    ]
    return _table(rows, CHANGE_SCHEMA)


def block_entries(block: pa.Table) -> list[Entry]:
    """Return the rows of an entry block as values: for pages that a person or a request asked for."""
    columns = [block.column(name).to_pylist() for name in ENTRY_SCHEMA.names[:-1]]
    return [
        Entry(
            path=Path(key),
            address=address,
            checksum=checksum,
            size_bytes=size,
            mtime=Instant(mtime),
            content_type=content_type,
            metadata=decode_metadata(metadata),
        )
        for key, address, checksum, size, mtime, content_type, metadata in zip(*columns, strict=True)
    ]


def block_changes(block: pa.Table) -> list[Change]:
    """Return the rows of a change block as values."""
    deleted = block.column("deleted").to_pylist()
    entries = block_entries(block)
    return [Tombstone(path=e.path) if gone else e for e, gone in zip(entries, deleted, strict=True)]


def empty_entries() -> pa.Table:
    """Return an entry block without rows."""
    return ENTRY_SCHEMA.empty_table()


def empty_changes() -> pa.Table:
    """Return a change block without rows."""
    return CHANGE_SCHEMA.empty_table()


def _fields(entry: Entry) -> tuple[str, str, int, int, str, str, bytes]:
    return (
        entry.address,
        entry.checksum,
        entry.size_bytes,
        entry.mtime,
        entry.content_type,
        encode_metadata(entry.metadata),
        entry_identity(entry),
    )


def _table(rows: Sequence[tuple[object, ...]], schema: pa.Schema) -> pa.Table:
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(schema)
    return pa.table([pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)], schema=schema)
