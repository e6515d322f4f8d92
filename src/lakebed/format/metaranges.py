"""Metarange files: the ranges of one tree, in key order, as Parquet.

A metarange's hash covers every column, the names of the range files included:
two writers with one nonce can then never mean different files by one name.

Version 2 lists ranges with ids of 64 digits; those in version 1 are `<hash>-<nonce>`. Both may stand in one file.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakebed.errors import CorruptError, ErrorKind
from lakebed.format.columns import column, require_rising
from lakebed.format.hashing import rows_hash
from lakebed.format.parquet import FileKind, decode, encode
from lakebed.format.tree_names import HASH_DIGITS, NAME_DIGITS, OLD_HASH_DIGITS
from lakebed.model.ids import RangeId

_EMPTY: Final = pa.scalar("", pa.string())
_DASH: Final = pa.scalar("-", pa.string())

METARANGE_SCHEMA: Final = pa.schema(
    [
        pa.field("range", pa.string(), nullable=False),
        pa.field("hash", pa.string(), nullable=False),
        pa.field("min_key", pa.string(), nullable=False),
        pa.field("max_key", pa.string(), nullable=False),
        pa.field("count", pa.int64(), nullable=False),
        pa.field("bytes", pa.int64(), nullable=False),
    ]
)
"""`range` is the file's name without folder and ending, `bytes` the file's size."""

METARANGE_FILE: Final = FileKind(
    name="metarange",
    version=2,
    schema=METARANGE_SCHEMA,
    sort_key="min_key",
    statistics=("min_key", "max_key"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeInfo:
    """One range of a tree, as its metarange tells it."""

    id: RangeId
    hash: str
    min_key: str
    max_key: str
    count: int
    bytes: int


def metarange_block(ranges: Sequence[RangeInfo]) -> pa.Table:
    """Return the ranges, in key order, as the table that a metarange file holds."""
    columns = [
        [r.id for r in ranges],
        [r.hash for r in ranges],
        [r.min_key for r in ranges],
        [r.max_key for r in ranges],
        [r.count for r in ranges],
        [r.bytes for r in ranges],
    ]
    arrays = [pa.array(values, f.type) for values, f in zip(columns, METARANGE_SCHEMA, strict=True)]
    return pa.table(arrays, schema=METARANGE_SCHEMA)


def metarange_hash(block: pa.Table) -> str:
    """Return the hash of a metarange as 64 hex digits."""
    return rows_hash(block, METARANGE_SCHEMA.names)


def encode_metarange(block: pa.Table) -> bytes:
    """Return a table of ranges, which must not be empty, as a metarange file."""
    assert block.num_rows > 0, "the empty tree has no file"
    require_disjoint(block)
    return encode(METARANGE_FILE, block)


def decode_metarange(data: bytes, *, expected_hash: str | None = None) -> pa.Table:
    """Return the table of ranges of a metarange file.

    Raises:
        CorruptError: not bytes that `encode_metarange` returned, not the ranges whose hash begins with `expected_hash`,
            or a newer version.
    """
    block = decode(METARANGE_FILE, data)
    require_disjoint(block)
    if expected_hash is not None and not metarange_hash(block).startswith(expected_hash):
        raise CorruptError(
            ErrorKind.CHECKSUM_MISMATCH, "metarange file lists other ranges than its name says"
        )
    return block


def range_infos(block: pa.Table) -> tuple[RangeInfo, ...]:
    """Return the rows of a metarange as values."""
    columns = [block.column(name).to_pylist() for name in METARANGE_SCHEMA.names]
    return tuple(
        RangeInfo(id=RangeId(name), hash=digest, min_key=low, max_key=high, count=count, bytes=size)
        for name, digest, low, high, count, size in zip(*columns, strict=True)
    )


def require_disjoint(block: pa.Table) -> None:
    """Refuse ranges that overlap or do not rise, that are empty, or whose names do not carry their hashes.

    Raises:
        CorruptError: `KEYS_OUT_OF_ORDER`, or `UNREADABLE`.
    """
    low, high = column(block, "min_key"), column(block, "max_key")
    edges = pa.concat_arrays([low, high])
    # min, max, min, max …: rising strictly, except that a range of one entry has both alike.
    interleaved = edges.take(pa.array(np.arange(2 * len(low)).reshape(2, -1).T.reshape(-1)))
    single = pc.equal(column(block, "count"), pa.scalar(1, pa.int64()))
    if not pc.all(pc.equal(pc.equal(low, high), single)).as_py():
        raise CorruptError(ErrorKind.UNREADABLE, "a metarange's counts do not fit its keys")
    kept = np.ones(2 * len(low), np.bool_)
    kept[1::2] = ~np.asarray(single.to_numpy(zero_copy_only=False), np.bool_)
    require_rising(interleaved.filter(pa.array(kept)), what="a metarange")
    if (pc.min(block.column("count")).as_py() or 0) < 1:
        raise CorruptError(ErrorKind.UNREADABLE, "a metarange lists an empty range")
    names, hashes = column(block, "range"), column(block, "hash")
    old = pc.equal(_start(names, OLD_HASH_DIGITS + 1), pc.binary_join_element_wise(hashes, _DASH, _EMPTY))
    new = pc.and_(
        pc.equal(_start(names, HASH_DIGITS), _start(hashes, HASH_DIGITS)),
        pc.equal(pc.binary_length(names), pa.scalar(NAME_DIGITS, pa.int32())),
    )
    if not pc.all(pc.or_(old, new)).as_py():
        raise CorruptError(ErrorKind.UNREADABLE, "a metarange's file names do not carry their hashes")


def _start(texts: pa.Array, digits: int) -> pa.Array:
    return pc.utf8_slice_codeunits(texts, 0, digits)
