"""Bloom filters over keys: whether a segment may hold a path, before anything of it is fetched.

A stored format, next to a segment's other statistics:

    bits        10 for each key, at least 64, in whole bytes; bit i is bit i % 8 of byte i // 8
    a key's     (low + i * high) modulo the number of bits, for i in 0 … 6, where low and high are the halves
                of the key's hash (`format/cut.py`), the high one made odd

Of keys that are not there about one in a hundred gets a yes. A reader with many
layers hashes a path once and asks every filter with that.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from lakebed.format.cut import Words, key_hashes

_BITS_PER_KEY: Final = 10
PROBES: Final = 7
_BYTES_MIN: Final = 8
_LOW: Final = 0xFFFFFFFF
_ALL: Final = 0xFFFFFFFFFFFFFFFF
_STEP: Final = 1 << 16


@dataclass(frozen=True, slots=True)
class Bloom:
    """The keys of one dataset, roughly."""

    bits: bytes

    def may_hold(self, key_hash: int) -> bool:
        """Return False only if no key with that hash (see `key_hash`) is there."""
        bits = self.bits
        size = len(bits) * 8
        at, step = key_hash & _LOW, (key_hash >> 32) | 1
        for _ in range(PROBES):
            place = at % size
            if not bits[place >> 3] >> (place & 7) & 1:
                return False
            at += step
        return True


def build_bloom(keys: pa.Array) -> Bloom:
    """Return the filter of these keys."""
    return bloom_of(key_hashes(keys))


def bloom_of(hashes: Words) -> Bloom:
    """Return the filter of the keys with these hashes (`format.cut.key_hashes`)."""
    size = 8 * max(_BYTES_MIN, -(-len(hashes) * _BITS_PER_KEY // 8))
    flags = np.zeros(size, np.bool_)
    # In steps, so that the places of a million keys are not all held at once.
    for start in range(0, len(hashes), _STEP):
        part = hashes[start : start + _STEP]
        at, step = part & np.uint64(_LOW), (part >> np.uint64(32)) | np.uint64(1)
        for _ in range(PROBES):
            flags[at % np.uint64(size)] = True
            at = at + step
    return Bloom(np.packbits(flags, bitorder="little").tobytes())


def key_hash(path: str) -> int:
    """Return the hash of one key: what `key_hashes` returns for it, without the cost of an array."""
    data = path.encode()
    h = len(data) * 0x9E3779B97F4A7C15 & _ALL
    for at in range(0, len(data), 8):
        h = (h ^ int.from_bytes(data[at : at + 8], "little")) * 0xFF51AFD7ED558CCD & _ALL
        h ^= h >> 32
    h = (h ^ (h >> 33)) * 0xFF51AFD7ED558CCD & _ALL
    h = (h ^ (h >> 33)) * 0xC4CEB9FE1A85EC53 & _ALL
    return h ^ (h >> 33)
