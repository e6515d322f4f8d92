"""`BloomStack`: many Bloom filters asked in one step. Pure.

A point read of a branch with many segments asks all their filters the same question, and nearly all say no. One by one
that costs a microsecond each; here the filters lie behind one another in one array, and all places of a key in all
of them are looked at together, in a dozen array operations however many filters there are.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np

from lakebed.format.bloom import PROBES, Bloom

_LOW: Final = 0xFFFFFFFF
_PROBE: Final = np.arange(PROBES, dtype=np.int64)[:, None]
_BIT: Final = (1 << np.arange(8)).astype(np.uint8)


class BloomStack:
    """The filters of several datasets."""

    __slots__ = ("_bits", "_places", "_sizes", "_starts")

    def __init__(self, blooms: Sequence[Bloom]) -> None:
        lengths = np.array([len(bloom.bits) for bloom in blooms], np.int64)
        self._sizes = lengths * 8
        self._starts = np.cumsum(lengths) - lengths
        self._bits = np.frombuffer(b"".join(bloom.bits for bloom in blooms), np.uint8)
        self._places = np.empty((PROBES, len(blooms)), np.int64)

    @property
    def size_bytes(self) -> int:
        """What it takes in memory."""
        return len(self._bits)

    def may_hold(self, key_hash: int) -> list[int]:
        """Return which of the filters say yes, in their order; as `Bloom.may_hold` does."""
        places = self._places
        probes = _PROBE * ((key_hash >> 32) | 1) + (key_hash & _LOW)
        np.remainder(probes, self._sizes, out=places)
        bits = _BIT.take(places & 7)
        places >>= 3
        places += self._starts
        bits &= self._bits.take(places)
        # The plain functions: `all` and `flatnonzero` go through wrappers that cost as much as the work.
        found: list[int] = np.logical_and.reduce(bits, axis=0).nonzero()[0].tolist()
        return found
