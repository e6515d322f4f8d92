"""What makes two entries the same content to a user.

Size, checksum, user metadata and content type; not the address and not the
time, so that equal bytes uploaded twice are no difference. Diff, merge and commit
compare these 16 bytes, and the address only of what lies outside the namespace or has no
checksum (`format.compare`). Garbage collection compares addresses alone.
"""

import hashlib
import struct
from collections.abc import Mapping

import msgspec
import pyarrow as pa

from lakebed.model.entries import Entry

IDENTITY_BYTES = 16
_FIXED = struct.Struct(">BqIII")
_VERSION = 1

_encode_json = msgspec.json.Encoder(order="sorted").encode


def entry_identity(entry: Entry) -> bytes:
    """Return the identity of `entry`."""
    return identity_of(entry.size_bytes, entry.checksum, entry.content_type, encode_metadata(entry.metadata))


def identity_of(size_bytes: int, checksum: str, content_type: str, metadata: str) -> bytes:
    """Return the identity of an entry with these fields; `metadata` as `encode_metadata` returns it."""
    a, b, c = checksum.encode(), content_type.encode(), metadata.encode()
    fixed = _FIXED.pack(_VERSION, size_bytes, len(a), len(b), len(c))
    return hashlib.sha256(b"".join((fixed, a, b, c))).digest()[:IDENTITY_BYTES]


def alike(one: Entry, other: Entry) -> bool:
    """Return whether a user sees no difference between two entries; `compare.identities_differ` has the rules."""
    if entry_identity(one) != entry_identity(other):
        return False
    if not one.checksum:
        return (one.address, one.mtime) == (other.address, other.mtime)
    return one.address == other.address or not (one.is_external or other.is_external)


def identity_column(block: pa.Table) -> pa.Array:
    """Return the identity of each row of a change block, nothing for a tombstone.

    A loop over entries, since a hash has to be computed for each: a second for 500,000.
    """
    names = ("size", "checksum", "content_type", "metadata", "deleted")
    rows = zip(*(block.column(name).to_pylist() for name in names), strict=True)
    return pa.array(
        [b"" if deleted else identity_of(size, *texts) for size, *texts, deleted in rows], pa.binary()
    )


def encode_metadata(metadata: Mapping[str, str]) -> str:
    """Return user metadata as the one text that stands for it: JSON with sorted keys, "" for none."""
    return _encode_json(metadata).decode() if metadata else ""


def decode_metadata(text: str) -> dict[str, str]:
    """Return what `encode_metadata` was given."""
    return msgspec.json.decode(text, type=dict[str, str]) if text else {}
