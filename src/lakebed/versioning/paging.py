"""One page of a sorted stream of blocks, plain or folded at a delimiter.

Listings and diffs are paged alike. Folding is a skip-scan: at a common prefix the
stream is left and a new one begun past everything below it, so that a folder costs
one seek however much it holds.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lakebed.format.columns import column, text_buffers

Scan = Callable[[str], AsyncGenerator[pa.Table, None]]
"""Yields blocks in key order from a key on. It may be begun many times for one page."""

Peek = Callable[[str], Awaitable[str | None]]
"""Returns the first key of the stream from a key on, for less than beginning the stream would cost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockPage:
    """Rows and common prefixes, each in key order."""

    rows: pa.Table
    prefixes: tuple[str, ...]
    has_more: bool

    @property
    def last(self) -> str:
        """The greatest key or prefix of the page: what the next page comes after."""
        keys = self.rows.column("key")
        return max(keys[-1].as_py() if len(keys) else "", self.prefixes[-1] if self.prefixes else "")


async def flat_page(scan: Scan, schema: pa.Schema, *, after: str, amount: int) -> BlockPage:
    """Return the first `amount` rows after the key `after`."""
    blocks: list[pa.Table] = []
    wanted = amount + 1
    # Closed here and not by the garbage collector, which would make a task of it: a third of the cost of a page.
    async with aclosing(scan(successor(after))) as stream:
        async for block in stream:
            blocks.append(block.slice(0, wanted))
            wanted -= blocks[-1].num_rows
            if wanted == 0:
                break
    rows = pa.concat_tables(blocks) if blocks else schema.empty_table()
    return BlockPage(rows=rows.slice(0, amount), prefixes=(), has_more=rows.num_rows > amount)


async def folded_page(
    scan: Scan,
    schema: pa.Schema,
    *,
    prefix: str,
    after: str,
    delimiter: str,
    amount: int,
    peek: Peek | None = None,
) -> BlockPage:
    """Return the first `amount` rows and common prefixes after `after`.

    A row whose key has `delimiter` behind `prefix` is folded into the prefix that ends with it.
    With `peek`, a folder costs one of its calls, and the stream is begun only for rows.
    """
    fold = _Fold(prefix, delimiter)
    folder: bytes | None = fold(after.encode()) if after.startswith(prefix) else None
    # Inside a folder, the page begins with the folder again, if it has more; behind the folder itself, past all of it.
    cursor = _text(fold.past(folder)) if folder == after.encode() else successor(after)
    page = _Page(fold, amount)
    while cursor is not None:
        if peek is not None:
            first = await peek(cursor)
            if first is None:
                break
            folder = fold(first.encode())
            if folder is not None:
                cursor = _text(page.add_folder(folder))
                continue
            cursor = first
        async with aclosing(scan(cursor)) as stream:
            cursor = await page.take(stream)
    rows = pa.concat_tables(page.parts) if page.parts else schema.empty_table()
    prefixes = tuple([each.decode() for each in page.folders])
    return BlockPage(rows=rows, prefixes=prefixes, has_more=page.has_more)


def _text(key: bytes | None) -> str | None:
    return key.decode() if key is not None else None


def successor(key: str) -> str:
    """Return the smallest key greater than `key`; "" (before every key) for ""."""
    return key + "\0" if key else ""


class BlockKeys:
    """The key column of a block, for a search of a few rows: Arrow's own scalars cost a microsecond each."""

    __slots__ = ("_arrays", "_data", "_offsets", "rows")

    def __init__(self, block: pa.Table) -> None:
        self._arrays = text_buffers(column(block, "key"))
        self._offsets, self._data = self._arrays[0].data, self._arrays[1].data
        self.rows = block.num_rows

    def __getitem__(self, row: int) -> bytes:
        return self._data[self._offsets[row] : self._offsets[row + 1]].tobytes()

    def position(self, key: bytes, *, low: int = 0, guess: int | None = None) -> int:
        """Return the first row from `low` on whose key is not smaller than `key`; near `guess` it is found faster."""
        offsets, data, high = self._offsets, self._data, self.rows
        if (
            guess is not None
            and low < guess < high
            and data[offsets[guess - 1] : offsets[guess]].tobytes()
            < key
            <= data[offsets[guess] : offsets[guess + 1]].tobytes()
        ):
            return guess
        reach = 1
        while guess is not None and low < guess < high:
            # Away from the guess in longer and longer steps, until the row lies between low and high.
            if data[offsets[guess - 1] : offsets[guess]].tobytes() < key:
                low, guess = guess, guess + reach
            else:
                high, guess = guess - 1, guess - reach
            reach *= 8
        while low < high:
            middle = (low + high) // 2
            if data[offsets[middle] : offsets[middle + 1]].tobytes() < key:
                low = middle + 1
            else:
                high = middle
        return low

    def rows_without(self, byte: int, skipped: int, first: int, most: int) -> int:
        """Return how many rows from `first` on, of the next `most`, lack `byte` behind their first `skipped` bytes."""
        offsets, data = self._arrays
        begin, end = int(offsets[first]), int(offsets[first + most])
        at = begin + np.flatnonzero(data[begin:end] == byte)
        rows = np.searchsorted(offsets, at, side="right") - 1
        found = rows[at - offsets[rows] >= skipped]
        return int(found[0]) - first if len(found) else most


class _Fold:
    """Which folder a key is folded into, if any."""

    __slots__ = ("_after_delimiter", "_delimiter", "_skipped")

    def __init__(self, prefix: str, delimiter: str) -> None:
        self._skipped = len(prefix.encode())
        self._delimiter = delimiter.encode()
        following = _past(delimiter)
        # Nearly always: the delimiter with its last character one greater.
        self._after_delimiter = (
            following.encode() if following is not None and len(following) == len(delimiter) else None
        )

    def __call__(self, key: bytes) -> bytes | None:
        at = key.find(self._delimiter, self._skipped)
        return key[: at + len(self._delimiter)] if at >= 0 else None

    def past(self, folder: bytes) -> bytes | None:
        """Return the smallest text greater than every key in `folder`; None if there is none."""
        if self._after_delimiter is not None:
            return folder[: -len(self._delimiter)] + self._after_delimiter
        following = _past(folder.decode())
        return following.encode() if following is not None else None

    def plain_rows(self, keys: BlockKeys, first: int, most: int) -> int:
        """Return how many rows from `first` on, of the next `most`, are in no folder."""
        if len(self._delimiter) == 1:
            return keys.rows_without(self._delimiter[0], self._skipped, first, most)
        for run in range(most):
            if self(keys[first + run]) is not None:
                return run
        return most


class _Page:
    """A page being filled."""

    def __init__(self, fold: _Fold, amount: int) -> None:
        self._fold = fold
        self._room = amount
        self.parts: list[pa.Table] = []
        self.folders: list[bytes] = []
        self.has_more = False

    def add_folder(self, folder: bytes) -> bytes | None:
        """Add a common prefix; return where to go on, or None at the end of the page."""
        if self._room == 0:
            self.has_more = True
            return None
        self._room -= 1
        self.folders.append(folder)
        return self._fold.past(folder)

    async def take(self, blocks: AsyncGenerator[pa.Table, None]) -> str | None:
        """Fill the page from a stream; return where to begin the next one, or None at the end of the page."""
        fold, beyond = self._fold, b""
        length = counted = 0  # rows of the folder before, and of the one that reaches over the end of a block
        async for block in blocks:
            keys = BlockKeys(block)
            index = keys.position(beyond, guess=length - counted) if beyond else 0
            if index == keys.rows and index:
                # The folder holds this whole block, and who knows how many more: seek past it.
                return beyond.decode()
            last = keys[keys.rows - 1] if keys.rows else b""
            while index < keys.rows:
                if self._room == 0:
                    self.has_more = True
                    return None
                folder = fold(keys[index])
                if folder is None:
                    run = fold.plain_rows(keys, index, min(self._room, keys.rows - index))
                    self.parts.append(block.slice(index, run))
                    self._room -= run
                    index += run
                    continue
                following = self.add_folder(folder)
                if following is None:
                    return None
                beyond = following
                if last < beyond:
                    counted = keys.rows - index
                    break
                # Folders are mostly about as long as the one before.
                start, index = index, keys.position(beyond, low=index + 1, guess=index + length)
                length = index - start
        return None


def _past(prefix: str) -> str | None:
    """Return the smallest text greater than every key with `prefix`; None if there is none."""
    prefix = prefix.rstrip("\U0010ffff")
    if not prefix:
        return None
    last = ord(prefix[-1])
    following = 0xE000 if last == 0xD7FF else last + 1  # Surrogates are no characters.
    return prefix[:-1] + chr(following)
