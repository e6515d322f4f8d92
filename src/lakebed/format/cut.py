"""Where ranges end. Pure, and a stored format: the same rows are cut at the same keys for ever.

A range ends after the first row for which one of these holds, counted from the
range's own start:

    1. the hash of its key is 0 modulo `entries_expected`;
    2. the range has `entries_expected` rows or half of `bytes_max`, and the hash is 0 modulo a 64th of the former;
    3. the range is full: it has `entries_max` rows or `bytes_max` bytes.

So an end depends on the rows of its range alone, never on what follows or on
history: trees with equal keys have equal cuts (where sizes come into play, equal
rows), untouched ranges stay valid when their neighbours change, and after an
edit the cuts fall into step again at the next key of rule 1. Rule 2 keeps ranges
from becoming several times as large as expected (rewriting one is what a small
commit costs) without giving that up: when a row is added, the same key meets it.
Rule 3 alone would move every cut up to the next key of rule 1.

The hash of a key takes its UTF-8 in words of 8 bytes, little-endian, the last
one filled up with zeros. All arithmetic is modulo 2**64:

    h = length * 0x9E3779B97F4A7C15
    for each word:  h = (h ^ word) * 0xFF51AFD7ED558CCD;  h = h ^ (h >> 32)
    h = h ^ (h >> 33);  h = h * 0xFF51AFD7ED558CCD
    h = h ^ (h >> 33);  h = h * 0xC4CEB9FE1A85EC53;  h = h ^ (h >> 33)

The bytes of a row are those of its texts and 16 for its numbers.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakebed.format.blocks import ENTRY_SCHEMA
from lakebed.format.columns import Ints, text_buffers
from lakebed.limits import RANGE_BYTES_MAX, RANGE_ENTRIES_EXPECTED, RANGE_ENTRIES_MAX

Words = npt.NDArray[np.uint64]

_LENGTH: Final = np.uint64(0x9E3779B97F4A7C15)
_MIX: Final = np.uint64(0xFF51AFD7ED558CCD)
_LAST_MIX: Final = np.uint64(0xC4CEB9FE1A85EC53)
_ALL_BITS: Final = np.uint64(0xFFFFFFFFFFFFFFFF)
_ONE: Final = np.uint64(1)
_TOP_BIT: Final = np.uint64(63)
_HALF: Final = np.uint64(32)
_SHIFT: Final = np.uint64(33)
_WORD: Final = 8
# Up to so many chunks cost an encoder less than a copy of the rows would.
_CHUNKS_MAX: Final = 64
_HASH_STEP: Final = 16384

_TEXTS: Final = tuple(f.name for f in ENTRY_SCHEMA if not pa.types.is_int64(f.type))
_NUMBER_BYTES: Final = 8 * (len(ENTRY_SCHEMA) - len(_TEXTS))
_NEVER: Final = 1 << 62


@dataclass(frozen=True, slots=True, kw_only=True)
class CutRule:
    """The three numbers of the rule. Tests use small ones; stored trees were all made with the defaults."""

    entries_expected: int = RANGE_ENTRIES_EXPECTED
    entries_max: int = RANGE_ENTRIES_MAX
    bytes_max: int = RANGE_BYTES_MAX

    @property
    def bytes_expected(self) -> int:
        return max(1, self.bytes_max // 2)

    @property
    def modulus_when_long(self) -> int:
        return max(1, self.entries_expected // 64)

    def ends_by_key(self, key: str) -> bool:
        """Return whether a range that reaches `key` ends there whatever else it holds."""
        return int(key_hashes(pa.array([key], pa.string()))[0]) % self.entries_expected == 0


DEFAULT_RULE: Final = CutRule()


def key_hashes(keys: pa.Array) -> Words:
    """Return the hash of each key."""
    offsets, data = text_buffers(keys)
    content = data[offsets[0] : offsets[-1]]
    words = np.zeros(len(content) // _WORD + 2, "<u8")
    words.view(np.uint8)[: len(content)] = content
    starts = offsets[:-1].astype(np.int64) - int(offsets[0])
    lengths = np.diff(offsets).astype(np.int64)
    hashes = lengths.astype(np.uint64) * _LENGTH
    # In steps whose intermediate arrays stay in the processor's cache.
    for at in range(0, len(keys), _HASH_STEP):
        step = slice(at, at + _HASH_STEP)
        _mix_words(hashes[step], words, starts[step], lengths[step])
    hashes = (hashes ^ (hashes >> _SHIFT)) * _MIX
    hashes = (hashes ^ (hashes >> _SHIFT)) * _LAST_MIX
    return hashes ^ (hashes >> _SHIFT)


def _mix_words(hashes: Words, words: Words, starts: Ints, left: Ints) -> None:
    """Mix the words of keys that start at those bytes, and have that many left, into their hashes."""
    rows = np.flatnonzero(left)
    # A key's word lies across two aligned ones, and the second of them is the first of its next word.
    at, shift = starts[rows] // _WORD, (starts[rows] % _WORD * 8).astype(np.uint64)
    left, mixed, low = left[rows], hashes[rows], words[at]
    shortest = int(left.min(initial=_NEVER))
    while len(rows):
        at += 1
        high = words[at]
        word = (low >> shift) | ((high << (_TOP_BIT - shift)) << _ONE)
        if shortest < _WORD:
            word &= _ALL_BITS >> (np.maximum(_WORD - left, 0) * 8).astype(np.uint64)
        mixed = (mixed ^ word) * _MIX
        mixed ^= mixed >> _HALF
        low, left, shortest = high, left - _WORD, shortest - _WORD
        if shortest <= 0:
            hashes[rows] = mixed
            more = np.flatnonzero(left > 0)
            rows, at, shift = rows[more], at[more], shift[more]
            left, mixed, low = left[more], mixed[more], low[more]
            shortest = int(left.min(initial=_NEVER))


class Cutter:
    """Takes the rows of a tree in key order and hands out its ranges.

    Holds at most one unfinished range. While `is_empty`, the next row starts a
    range, and so a range of another tree that was made by the same rule may
    be taken whole in its place.
    """

    def __init__(self, rule: CutRule = DEFAULT_RULE) -> None:
        self._rule = rule
        self._held: list[pa.Table] = []
        self._rows = 0
        self._bytes = 0

    @property
    def is_empty(self) -> bool:
        return not self._held

    def feed(self, block: pa.Table) -> list[pa.Table]:
        """Add rows that follow those fed before; return the ranges that they end."""
        return list(self._feed(block)) if block.num_rows else []

    def finish(self) -> pa.Table | None:
        """Return the rows left, as the last range of the tree; None if there are none."""
        return self._close() if self._held else None

    def _feed(self, block: pa.Table) -> Iterator[pa.Table]:
        start = 0
        for end in self._ends(block):
            self._held.append(block.slice(start, end - start))
            yield self._close()
            start = end
        rest = block.slice(start)
        if rest.num_rows:
            self._held.append(rest)
            self._rows += rest.num_rows
            self._bytes += block_bytes(rest)

    def _close(self) -> pa.Table:
        closed = pa.concat_tables(self._held)
        if len(self._held) > _CHUNKS_MAX:
            closed = closed.combine_chunks()
        self._held, self._rows, self._bytes = [], 0, 0
        return closed

    def _ends(self, block: pa.Table) -> Iterator[int]:
        """Yield the rows after which a range ends, given what is held already."""
        rule, rows = self._rule, block.num_rows
        hashes = np.concatenate([key_hashes(chunk) for chunk in block.column("key").chunks])
        by_key = np.flatnonzero(hashes % np.uint64(rule.entries_expected) == 0)
        held_rows, held_bytes = self._rows, self._bytes
        is_short = held_rows + rows < min(rule.entries_expected, rule.entries_max)
        if is_short and held_bytes + block_bytes(block) < rule.bytes_expected:
            yield from (int(row) + 1 for row in by_key)
            return

        when_long = np.flatnonzero(hashes % np.uint64(rule.modulus_when_long) == 0)
        sizes = np.cumsum(row_bytes(block))
        start = 0
        while True:
            before = int(sizes[start - 1]) if start else 0
            long = min(
                start + rule.entries_expected - held_rows - 1,
                int(np.searchsorted(sizes, before + rule.bytes_expected - held_bytes)),
            )
            full = min(
                start + rule.entries_max - held_rows - 1,
                int(np.searchsorted(sizes, before + rule.bytes_max - held_bytes)),
            )
            last = min(_first(by_key, start), _first(when_long, max(start, long)), max(start, full))
            if last >= rows:
                return
            yield last + 1
            start, held_rows, held_bytes = last + 1, 0, 0


def row_bytes(block: pa.Table) -> Ints:
    """Return the size of each row by the rule's measure."""
    sizes = np.full(block.num_rows, _NUMBER_BYTES, np.int64)
    for name in _TEXTS:
        chunks = block.column(name).chunks
        sizes += np.concatenate([np.diff(text_buffers(chunk)[0]) for chunk in chunks])
    return sizes


def block_bytes(block: pa.Table) -> int:
    """Return the size of all rows, at a cost that does not depend on their number."""
    total: int = _NUMBER_BYTES * block.num_rows
    for name in _TEXTS:
        for chunk in block.column(name).chunks:
            offsets, _ = text_buffers(chunk)
            total += int(offsets[-1]) - int(offsets[0])
    return total


def _first(rows: Ints, start: int) -> int:
    at = int(np.searchsorted(rows, start))
    return int(rows[at]) if at < len(rows) else _NEVER
