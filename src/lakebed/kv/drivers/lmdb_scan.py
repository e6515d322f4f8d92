"""Read consecutive rows of one LMDB snapshot in key order, following signposts into longer keys.

Rows come as columns and in growing strides: the stride bounds what is read past
the end of a small partition, and one look at the longest key of a stride says
whether it holds a signpost at all, so nothing is asked row by row.
"""

from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from itertools import accumulate, islice
from typing import Final

from lakebed.kv.drivers.lmdb_env import Txn
from lakebed.kv.drivers.lmdb_keys import (
    CHUNK_BYTES,
    PREFIX_BYTES,
    SIGNPOST_BYTES,
    partition_prefix,
    prefix_after,
    prefix_below,
    signpost_of,
)
from lakebed.kv.drivers.lmdb_page import LmdbPage

_FIRST_STRIDE: Final = 64


@dataclass(frozen=True, slots=True)
class _Span:
    """The keys under `prefix` whose rest is in [start, end); `head` is what comes before that rest."""

    prefix: bytes
    head: bytes
    start: bytes
    end: bytes | None

    def low(self) -> bytes:
        """Return the first LMDB key at which something >= `start` can be."""
        if len(self.start) > CHUNK_BYTES:
            return signpost_of(self.prefix, self.start)
        return self.prefix + self.start

    def high(self) -> bytes:
        """Return the first LMDB key at which everything is >= `end`."""
        if self.end is None:
            return prefix_after(self.prefix)
        if len(self.end) > CHUNK_BYTES:
            # Beyond the signpost itself: what is below it may still be smaller than `end`.
            return signpost_of(self.prefix, self.end) + b"\0"
        return self.prefix + self.end

    def below(self, signpost: bytes) -> "_Span":
        """Return the part of the span that `signpost` points to."""
        chunk = signpost[PREFIX_BYTES:-1]
        starts_there = len(self.start) > CHUNK_BYTES and self.start.startswith(chunk)
        ends_there = self.end is not None and len(self.end) > CHUNK_BYTES and self.end.startswith(chunk)
        return _Span(
            prefix_below(signpost),
            self.head + chunk,
            self.start[CHUNK_BYTES:] if starts_there else b"",
            self.end[CHUNK_BYTES:] if self.end is not None and ends_there else None,
        )


def read_page(
    txn: Txn, partition: str, *, start: bytes, end: bytes | None, rows_max: int, bytes_max: int
) -> LmdbPage:
    """Return the first rows with `start` <= key < `end`, none only if there are none.

    The page has at most `rows_max` rows, and at most `bytes_max` bytes and one row more.
    """
    page = _Rows(txn, rows_max=rows_max, bytes_max=bytes_max)
    page.collect(_Span(partition_prefix(partition), b"", start, end))
    return LmdbPage(page.places, page.records)


class _Rows:
    """What has been collected so far, and when to stop."""

    def __init__(self, txn: Txn, *, rows_max: int, bytes_max: int) -> None:
        self._txn = txn
        self._rows_max = rows_max
        self._bytes_left = bytes_max
        self.places: list[bytes] = []
        self.records: list[bytes] = []

    def collect(self, span: _Span) -> None:
        """Append the rows of `span`, until the page is full."""
        cursor = self._txn.cursor()
        if not cursor.set_range(span.low()):
            return
        high = span.high()
        rows = cursor.iternext()
        stride = _FIRST_STRIDE
        while not self._full():
            wanted = min(stride, self._rows_max - len(self.places))
            block = list(islice(rows, wanted))
            if not block:
                return
            keys, records = zip(*block, strict=True)
            inside = bisect_left(keys, high) if keys[-1] >= high else len(keys)
            if max(map(len, keys)) == SIGNPOST_BYTES:
                self._append_with_signposts(keys[:inside], records[:inside], span)
            else:
                self._append(keys[:inside], records[:inside], span.head)
            if inside < wanted:
                return
            stride *= 2

    def _append_with_signposts(
        self, keys: tuple[bytes, ...], records: tuple[bytes, ...], span: _Span
    ) -> None:
        first = 0
        for index in [n for n, key in enumerate(keys) if len(key) == SIGNPOST_BYTES]:
            self._append(keys[first:index], records[first:index], span.head)
            if not self._full():
                self.collect(span.below(keys[index]))
            if self._full():
                return
            first = index + 1
        self._append(keys[first:], records[first:], span.head)

    def _append(self, keys: tuple[bytes, ...], records: tuple[bytes, ...], head: bytes) -> None:
        room = self._rows_max - len(self.places)
        keys, records = keys[:room], records[:room]
        size = sum(map(len, records))
        if size > self._bytes_left:
            before = list(accumulate(map(len, records), initial=0))
            kept = bisect_right(before, self._bytes_left)
            keys, records = keys[:kept], records[:kept]
        if head:
            # As if the whole key stood in one place.
            self.places += [key[:PREFIX_BYTES] + head + key[PREFIX_BYTES:] for key in keys]
        else:
            self.places += keys
        self.records += records
        self._bytes_left -= size

    def _full(self) -> bool:
        return len(self.places) >= self._rows_max or self._bytes_left <= 0
