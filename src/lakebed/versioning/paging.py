"""One page of a sorted stream of blocks, plain or folded at a delimiter.

Listings and diffs are paged alike. Folding is a skip-scan: at a common prefix the
stream is left and a new one begun past everything below it, so that a folder costs
one seek however much it holds.
"""

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

import pyarrow as pa

from lakebed.format.search import count_below

Scan = Callable[[str], AsyncIterator[pa.Table]]
"""Yields blocks in key order from a key on. It may be begun many times for one page."""


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
    async for block in scan(successor(after)):
        blocks.append(block.slice(0, wanted))
        wanted -= blocks[-1].num_rows
        if wanted == 0:
            break
    rows = pa.concat_tables(blocks) if blocks else schema.empty_table()
    return BlockPage(rows=rows.slice(0, amount), prefixes=(), has_more=rows.num_rows > amount)


async def folded_page(
    scan: Scan, schema: pa.Schema, *, prefix: str, after: str, delimiter: str, amount: int
) -> BlockPage:
    """Return the first `amount` rows and common prefixes after `after`.

    A row whose key has `delimiter` behind `prefix` is folded into the prefix that ends with it.
    """
    folder = _fold(after, prefix, delimiter) if after.startswith(prefix) else None
    cursor = successor(after) if folder is None else _past(folder)
    page = _Page(prefix, delimiter, amount)
    while cursor is not None:
        cursor = await page.take(scan(cursor))
    rows = pa.concat_tables(page.parts) if page.parts else schema.empty_table()
    return BlockPage(rows=rows, prefixes=tuple(page.prefixes), has_more=page.has_more)


def successor(key: str) -> str:
    """Return the smallest key greater than `key`; "" (before every key) for ""."""
    return key + "\0" if key else ""


class _Page:
    """A page being filled."""

    def __init__(self, prefix: str, delimiter: str, amount: int) -> None:
        self._prefix = prefix
        self._delimiter = delimiter
        self._room = amount
        self.parts: list[pa.Table] = []
        self.prefixes: list[str] = []
        self.has_more = False

    async def take(self, blocks: AsyncIterator[pa.Table]) -> str | None:
        """Fill the page from a stream; return where to begin the next one, or None at the end of the page."""
        async for block in blocks:
            index = 0
            while index < block.num_rows:
                run, folder = self._next_folder(block, index)
                self.parts.append(block.slice(index, run))
                self._room -= run
                index += run
                if index < block.num_rows and self._room == 0:
                    self.has_more = True
                    return None
                if folder is None:
                    continue
                self.prefixes.append(folder)
                self._room -= 1
                beyond = _past(folder)
                if beyond is None:
                    return None
                index += count_below(block.slice(index), beyond)
                if index == block.num_rows:
                    return beyond
        return None

    def _next_folder(self, block: pa.Table, index: int) -> tuple[int, str | None]:
        """Return how many rows from `index` on are plain and fit, and the folder that follows them."""
        keys = block.column("key")
        most = min(self._room, block.num_rows - index)
        for run in range(most):
            folder = _fold(keys[index + run].as_py(), self._prefix, self._delimiter)
            if folder is not None:
                return run, folder
        return most, None


def _fold(key: str, prefix: str, delimiter: str) -> str | None:
    at = key.find(delimiter, len(prefix))
    return key[: at + len(delimiter)] if at >= 0 else None


def _past(prefix: str) -> str | None:
    """Return the smallest text greater than every key with `prefix`; None if there is none."""
    last = ord(prefix[-1])
    following = 0xE000 if last == 0xD7FF else last + 1  # Surrogates are no characters.
    return prefix[:-1] + chr(following) if following <= 0x10FFFF else None
