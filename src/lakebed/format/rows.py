"""Staging rows: one staged change as a KV value, and many of them as a block without a loop per entry.

    version (1) | flags (1) | size (8) | mtime (8) | identity (16) | lengths (4 x u16, 1 x u32) | address, checksum, content type, nonce, metadata

All numbers are little-endian. The fixed part comes first and the texts follow in
one run, so that decoding a page is: view the fixed parts as one structured array,
and read each text where the lengths of those before it put it. The numbers are on disk in every installation; they
are added to, never changed.
"""

import struct
from typing import Final

import numpy as np
import pyarrow as pa

from lakebed.env.clock import Instant
from lakebed.errors import CorruptError, ErrorKind, InvalidInputError
from lakebed.format.blocks import CHANGE_SCHEMA, empty_changes
from lakebed.format.identity import IDENTITY_BYTES, decode_metadata, encode_metadata, identity_of
from lakebed.format.spans import Spans
from lakebed.model.entries import Change, Entry, Tombstone
from lakebed.model.ids import Nonce, Path

VERSION: Final = 1
_TOMBSTONE: Final = 1
_HEADER: Final = struct.Struct("<BBqq16sHHHHI")
_DTYPE: Final = np.dtype(
    [
        ("version", "u1"),
        ("flags", "u1"),
        ("size", "<i8"),
        ("mtime", "<i8"),
        ("identity", f"S{IDENTITY_BYTES}"),
        ("address", "<u2"),
        ("checksum", "<u2"),
        ("content_type", "<u2"),
        ("nonce", "<u2"),
        ("metadata", "<u4"),
    ]
)
_TEXTS: Final = ("address", "checksum", "content_type", "nonce", "metadata")
_NO_IDENTITY: Final = bytes(IDENTITY_BYTES)
_U16_MAX: Final = 0xFFFF

_ADDRESS_SCHEMA: Final = pa.schema(
    [pa.field("address", pa.string(), nullable=False), pa.field("mtime", pa.int64(), nullable=False)]
)

assert _DTYPE.itemsize == _HEADER.size

ROW_PREFIX: Final = b"key/"
OPEN_KEY: Final = b"open"
"""The row that says a token's partition was not dropped. It sorts after every `key/…` row."""
OPEN_VALUE: Final = b"\x01"


def row_key(path: str) -> bytes:
    """Return the KV key of the row for `path`."""
    return ROW_PREFIX + path.encode()


def encode_row(change: Change, nonce: Nonce) -> bytes:
    """Return one change as a KV value. `nonce` lets a writer recognise its own row."""
    tag = nonce.encode()
    if isinstance(change, Tombstone):
        return _HEADER.pack(VERSION, _TOMBSTONE, 0, 0, _NO_IDENTITY, 0, 0, 0, len(tag), 0) + tag
    metadata = encode_metadata(change.metadata)
    identity = identity_of(change.size_bytes, change.checksum, change.content_type, metadata)
    address, checksum, content_type = (
        change.address.encode(),
        change.checksum.encode(),
        change.content_type.encode(),
    )
    meta = metadata.encode()
    if max(len(address), len(checksum), len(content_type)) > _U16_MAX:
        raise InvalidInputError(
            ErrorKind.TOO_LARGE, f"the address, checksum or content type of {change.path!r} is too long"
        )
    header = _HEADER.pack(
        VERSION,
        0,
        change.size_bytes,
        change.mtime,
        identity,
        len(address),
        len(checksum),
        len(content_type),
        len(tag),
        len(meta),
    )
    return b"".join((header, address, checksum, content_type, tag, meta))


def decode_row(path: Path, value: bytes) -> tuple[Change, Nonce]:
    """Return the change and the nonce of one row.

    Raises:
        CorruptError: not bytes that `encode_row` returned, or those of a newer version.
    """
    if len(value) < _HEADER.size:
        raise CorruptError(ErrorKind.UNREADABLE, f"staged row of {path!r} has only {len(value)} bytes")
    version, flags, size, mtime, _, *lengths = _HEADER.unpack_from(value)
    _require_version(version)
    if len(value) != _HEADER.size + sum(lengths):
        raise CorruptError(ErrorKind.UNREADABLE, f"staged row of {path!r} is cut short")
    texts, at = [], _HEADER.size
    for length in lengths:
        texts.append(value[at : at + length].decode())
        at += length
    address, checksum, content_type, nonce, metadata = texts
    if flags & _TOMBSTONE:
        return Tombstone(path=path), Nonce(nonce)
    entry = Entry(
        path=path,
        address=address,
        checksum=checksum,
        size_bytes=size,
        mtime=Instant(mtime),
        content_type=content_type,
        metadata=decode_metadata(metadata),
    )
    return entry, Nonce(nonce)


def is_tombstone(value: bytes) -> bool:
    """Return whether a row deletes its path; errors as for `decode_row`. For those who need no more of it."""
    if len(value) < _HEADER.size:
        raise CorruptError(ErrorKind.UNREADABLE, f"a staged row has only {len(value)} bytes")
    _require_version(value[0])
    return bool(value[1] & _TOMBSTONE)


def count_tombstones(values: Spans) -> int:
    """Return how many rows delete their path; errors as for `decode_rows`."""
    if len(values) == 0:
        return 0
    if int(values.lengths.min()) < _HEADER.size:
        raise CorruptError(ErrorKind.UNREADABLE, "a staged row is cut short")
    first = values.fixed(2)
    _require_version(int(first[:, 0].max()))
    return int(np.count_nonzero(first[:, 1] & _TOMBSTONE))


def decode_rows(keys: Spans, values: Spans) -> pa.Table:
    """Return rows, in key order, as a change block.

    Raises:
        CorruptError: a value is not one that `encode_row` returned.
    """
    count = len(keys)
    if count == 0:
        return empty_changes()
    header = _HEADER.size
    if int(values.lengths.min()) < header:
        raise CorruptError(ErrorKind.UNREADABLE, "a staged row is cut short")
    fixed = values.fixed(header).view(_DTYPE).reshape(count)
    _require_version(int(fixed["version"].max()))
    texts: dict[str, Spans] = {}
    at = np.full(count, header, np.int64)
    for name in _TEXTS:
        lengths = fixed[name].astype(np.int64)
        texts[name] = values.part(at, lengths)
        at = at + lengths
    if not np.array_equal(at, values.lengths):
        raise CorruptError(ErrorKind.UNREADABLE, "a staged row is cut short")
    prefix = len(ROW_PREFIX)
    return pa.table(
        [
            keys.part(prefix, keys.lengths - prefix).strings(),
            texts["address"].strings(),
            texts["checksum"].strings(),
            pa.array(fixed["size"]),
            pa.array(fixed["mtime"]),
            texts["content_type"].strings(),
            texts["metadata"].strings(),
            _identities(fixed),
            pa.array((fixed["flags"] & _TOMBSTONE) != 0),
        ],
        schema=CHANGE_SCHEMA,
    )


def decode_addresses(values: Spans) -> pa.Table:
    """Return the addresses and times of rows, without those of tombstones; errors as for `decode_rows`."""
    count, header = len(values), _HEADER.size
    if count == 0:
        return _ADDRESS_SCHEMA.empty_table()
    if int(values.lengths.min()) < header:
        raise CorruptError(ErrorKind.UNREADABLE, "a staged row is cut short")
    fixed = values.fixed(header).view(_DTYPE).reshape(count)
    _require_version(int(fixed["version"].max()))
    lengths = {name: fixed[name].astype(np.int64) for name in _TEXTS}
    if not np.array_equal(header + sum(lengths.values()), values.lengths):
        raise CorruptError(ErrorKind.UNREADABLE, "a staged row is cut short")
    addresses = values.part(header, lengths["address"]).strings()
    table = pa.table([addresses, pa.array(fixed["mtime"])], schema=_ADDRESS_SCHEMA)
    return table.filter(pa.array((fixed["flags"] & _TOMBSTONE) == 0))


def _identities(fixed: np.ndarray[tuple[int], np.dtype[np.void]]) -> pa.Array:
    """Identities as Arrow binary; a tombstone's is empty, as in every change block."""
    tombstone = (fixed["flags"] & _TOMBSTONE) != 0
    raw = np.frombuffer(fixed.tobytes(), np.uint8).reshape(len(fixed), _DTYPE.itemsize)
    start = _DTYPE.fields["identity"][1] if _DTYPE.fields else 0
    data = np.ascontiguousarray(raw[~tombstone, start : start + IDENTITY_BYTES])
    offsets = np.zeros(len(fixed) + 1, np.int32)
    np.cumsum(np.where(tombstone, 0, IDENTITY_BYTES), out=offsets[1:])
    return pa.BinaryArray.from_buffers(
        pa.binary(), len(fixed), [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    )


def _require_version(version: int) -> None:
    if version > VERSION:
        raise CorruptError(
            ErrorKind.NEWER_VERSION,
            f"staged rows were written by a newer lakebed (row version {version}, this one reads {VERSION}): upgrade it",
        )
