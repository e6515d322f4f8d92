"""Where a row lives in LMDB: keys of any length in byte order, although LMDB's own stop at 511. Pure.

    prefix of the partition (16) | key, if it has at most 494 bytes        the row
    prefix of the partition (16) | first 494 bytes of longer keys | 00     a signpost: longer keys follow here
    prefix of that signpost (16) | rest of the key, by the same two rules  the row, or another signpost

A prefix is a hash of the partition's name, or of the signpost above: a row's
place is computed, never looked up, so a point read is one LMDB read whatever
the key's length, and a million keys that share a long beginning are one
signpost and a million short keys, each a tree descent away.

Only a signpost has 511 bytes, which is how a scan knows it. It sorts after the
row equal to its first 494 bytes and before everything greater than them, which
is exactly where the longer keys belong.

These layouts are on disk in every environment: a change is a new format.
"""

from functools import lru_cache
from hashlib import blake2b
from typing import Final

from lakebed.kv.checks import check_partition

PREFIX_BYTES: Final = 16
CHUNK_BYTES: Final = 494
SIGNPOST_BYTES: Final = PREFIX_BYTES + CHUNK_BYTES + 1

assert SIGNPOST_BYTES == 511


@lru_cache(maxsize=4096)
def partition_prefix(partition: str) -> bytes:
    """Return the prefix of every row of `partition`; errors, which are not remembered, as for `check_partition`."""
    check_partition(partition)
    return blake2b(partition.encode(), digest_size=PREFIX_BYTES, person=b"partition").digest()


def prefix_below(signpost: bytes) -> bytes:
    """Return the prefix of the rows that `signpost` points to."""
    return blake2b(signpost, digest_size=PREFIX_BYTES, person=b"signpost").digest()


def signpost_of(prefix: bytes, key: bytes) -> bytes:
    """Return the signpost under `prefix` for a key that is too long."""
    return prefix + key[:CHUNK_BYTES] + b"\0"


def row_key(partition: str, key: bytes) -> bytes:
    """Return the LMDB key of the row."""
    if len(key) <= CHUNK_BYTES:
        return partition_prefix(partition) + key
    signpost = signposts(partition, key)[-1]
    rest = (len(key) - 1) % CHUNK_BYTES + 1
    return prefix_below(signpost) + key[-rest:]


def signposts(partition: str, key: bytes) -> list[bytes]:
    """Return the signposts that lead to the row, outermost first; none for a short key."""
    found = []
    prefix = partition_prefix(partition)
    while len(key) > CHUNK_BYTES:
        found.append(signpost_of(prefix, key))
        prefix = prefix_below(found[-1])
        key = key[CHUNK_BYTES:]
    return found


def prefix_after(prefix: bytes) -> bytes:
    """Return the smallest LMDB key after everything under `prefix`."""
    return prefix + b"\xff" * SIGNPOST_BYTES
