"""A stored value in LMDB: version, names, value. Pure.

    version * 2 + (1 if there are names) (8, big-endian) | [names] | value
    names:  size of what follows (4) | (size (4) | name) *

Rows have no names, and a scan reads rows by the hundred thousand: nearly every
record is eight bytes and the value, which columns of them split without a loop
that looks at each. The numbers are on disk: a change is a new format.
"""

import struct
from collections.abc import Sequence
from typing import Final

import numpy as np

from lakebed.kv.port import Item, Version

HEADER_BYTES: Final = 8
_SIZE: Final = struct.Struct(">I")
_HEAD: Final = struct.Struct(">Q")


def header(version: int) -> bytes:
    """Return what comes before the value in a record without names."""
    return (version << 1).to_bytes(HEADER_BYTES)


def encode(version: int, value: bytes, names: tuple[bytes, ...] = ()) -> bytes:
    """Return the record."""
    if not names:
        return header(version) + value
    listed = b"".join([_SIZE.pack(len(name)) + name for name in names])
    return (version << 1 | 1).to_bytes(HEADER_BYTES) + _SIZE.pack(len(listed)) + listed + value


def item_of(key: bytes, record: bytes) -> Item:
    """Return what the port calls the record at `key`."""
    (head,) = _HEAD.unpack_from(record)
    return Item(key, value_of(record) if head & 1 else record[HEADER_BYTES:], head >> 1)


def version_of(record: bytes) -> Version:
    """Return the version of `record`."""
    return Version(int.from_bytes(record[:HEADER_BYTES]) >> 1)


def value_of(record: bytes) -> bytes:
    """Return the value of `record`."""
    if not record[HEADER_BYTES - 1] & 1:
        return record[HEADER_BYTES:]
    (size,) = _SIZE.unpack_from(record, HEADER_BYTES)
    return record[HEADER_BYTES + _SIZE.size + size :]


def names_of(record: bytes) -> tuple[bytes, ...]:
    """Return the names that were swapped in with `record`."""
    if not record[HEADER_BYTES - 1] & 1:
        return ()
    (size,) = _SIZE.unpack_from(record, HEADER_BYTES)
    at = HEADER_BYTES + _SIZE.size
    end = at + size
    names = []
    while at < end:
        (length,) = _SIZE.unpack_from(record, at)
        at += _SIZE.size + length
        names.append(record[at - length : at])
    return tuple(names)


def columns(records: Sequence[bytes]) -> tuple[list[bytes], list[Version]]:
    """Return the values and the versions of many records."""
    heads = np.frombuffer(b"".join([record[:HEADER_BYTES] for record in records]), dtype=">u8")
    values = [record[HEADER_BYTES:] for record in records]
    for index in np.flatnonzero(heads & np.uint64(1)).tolist():
        values[index] = value_of(records[index])
    return values, (heads >> np.uint64(1)).tolist()
