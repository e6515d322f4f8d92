"""Reads of a branch's layers, newest first.

A layer that left its branch stays readable for a grace period, but a reader may
be slower than that, and a partition that was dropped must not read as empty.
So every token has an `open` row from its first write on, `drop` removes it
before anything else, and a read that does not see it in the same snapshot (or
later than what it read) reads the branch record again: if the token is still
named, nobody has written to it yet; if not, the read starts over.
"""

import asyncio
from bisect import bisect_left
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import aclosing
from dataclasses import dataclass

import pyarrow as pa

from lakebed.env.work import Workers
from lakebed.errors import ConflictError, ErrorKind, UnavailableError
from lakebed.format.blocks import change_block
from lakebed.format.rows import OPEN_KEY, ROW_PREFIX, decode_row, decode_rows, is_tombstone, row_key
from lakebed.format.spans import Spans
from lakebed.kv.port import KVStore, Page, Version, prefix_end
from lakebed.limits import SCAN_PAGE_ITEMS, SWAP_ATTEMPTS_MAX
from lakebed.model.branch import Branch
from lakebed.model.entries import Change
from lakebed.model.ids import Nonce, Path, StagingToken
from lakebed.model.repository import Repository
from lakebed.staging.port import Branches
from lakebed.staging.record import names_token, tokens_of
from lakebed.staging.runs import merge_runs

_ROWS_END = prefix_end(ROW_PREFIX)
# Below the first number of rows, decoding them one by one costs less than setting up a block; below the
# second, decoding them here costs less than handing them to another thread.
_FEW_ROWS = 24
_INLINE_ROWS = 2_000
_PAGE_GROWTH = 4


class LayersMovedError(ConflictError):
    """A layer that was being read has left the branch and is gone: read the branch record again."""

    def __init__(self, token: StagingToken) -> None:
        super().__init__(ErrorKind.VERSION_CHANGED, f"layer {token} left its branch while it was being read")


@dataclass(frozen=True, slots=True)
class Staged:
    """The newest staged change of a path, and where it lies."""

    change: Change
    token: StagingToken
    version: Version
    nonce: Nonce


@dataclass(frozen=True, slots=True)
class StagedKeys:
    """Every staged path from `start` up to but without `stop` (None: to the end), and whether it is deleted."""

    start: str
    stop: str | None
    paths: list[str]
    deleted: list[bool]

    def covers(self, path: str) -> bool:
        return self.start <= path and (self.stop is None or path < self.stop)

    def after(self, path: str) -> Iterator[tuple[str, bool]]:
        """Yield from `path` on."""
        first = bisect_left(self.paths, path)
        return zip(self.paths[first:], self.deleted[first:], strict=True)


class LayerReader:
    """Reads rows of token layers."""

    def __init__(self, kv: KVStore, branches: Branches, workers: Workers) -> None:
        self._kv = kv
        self._branches = branches
        self._workers = workers

    async def lookup(self, repo: Repository, branch: Branch, path: Path) -> tuple[Branch, Staged | None]:
        """Return the newest staged change of `path` and the record it was read from.

        That is `branch` itself, unless one of its layers was gone and the record had to be read again.
        """
        for _ in range(SWAP_ATTEMPTS_MAX):
            try:
                return branch, await self._lookup(repo, branch, path)
            except LayersMovedError:
                branch = (await self._branches.get(repo, branch.name)).value
        raise UnavailableError(
            ErrorKind.STORE_UNAVAILABLE, f"layers of {branch.name} go faster than they can be read"
        )

    async def scan(
        self,
        repo: Repository,
        branch: Branch,
        *,
        start: str = "",
        stop: str | None = None,
        prefix: str = "",
        first_page: int = SCAN_PAGE_ITEMS,
    ) -> AsyncGenerator[pa.Table, None]:
        """Yield the staged changes from `start` up to but without `stop`, under `prefix`, as change blocks.

        Newest wins, tombstones are kept. `first_page` is how many rows of each layer are read
        at first: what a caller who wants one page needs.

        Raises:
            LayersMovedError: a layer was dropped during the scan; nothing more is yielded.
        """
        within = _keys_between(start, stop, prefix)
        runs = [
            self._scan_token(repo, branch, token, within, first_page=first_page)
            for token in tokens_of(branch)
        ]
        async with aclosing(merge_runs(runs)) as blocks:
            async for block in blocks:
                yield block

    async def keys(
        self, repo: Repository, branch: Branch, *, start: str, prefix: str, rows: int
    ) -> StagedKeys:
        """Return the staged paths from `start` on, under `prefix`, as far as `rows` rows of each layer reach.

        Raises:
            LayersMovedError: a layer was dropped.
        """
        first, end = _keys_between(start, None, prefix)
        newest: dict[bytes, bytes] = {}
        stop: bytes | None = None
        for token in tokens_of(branch):
            page = await self._page(token, start=first, end=end, rows_max=rows)
            await self._require_open(repo, branch, token)
            if len(page.keys) == rows:
                reached = page.keys[-1] + b"\0"
                stop = reached if stop is None else min(stop, reached)
            for key, value in zip(page.keys, page.values, strict=True):
                newest.setdefault(key, value)
        known = sorted(key for key in newest if stop is None or key < stop)
        return StagedKeys(
            start,
            _path(stop) if stop is not None else None,
            [_path(key) for key in known],
            [is_tombstone(newest[key]) for key in known],
        )

    async def _lookup(self, repo: Repository, branch: Branch, path: Path) -> Staged | None:
        tokens = tokens_of(branch)
        if not tokens:
            return None
        key = row_key(path)
        items = await self._kv.get_many([(t, k) for t in tokens for k in (key, OPEN_KEY)])
        for index, token in enumerate(tokens):
            row, open_row = items[2 * index], items[2 * index + 1]
            if open_row is None:
                await self._require_named(repo, branch, token)
            elif row is not None:
                change, nonce = decode_row(path, row.value)
                return Staged(change, token, row.version, nonce)
        return None

    async def _scan_token(
        self,
        repo: Repository,
        branch: Branch,
        token: StagingToken,
        within: tuple[bytes, bytes | None],
        *,
        first_page: int,
    ) -> AsyncGenerator[pa.Table, None]:
        async with aclosing(self._pages(repo, branch, token, within, first_page=first_page)) as pages:
            if first_page < SCAN_PAGE_ITEMS:
                async for page in pages:
                    yield await self._decode([page])
                return
            # Whoever wants everything gets it decoded one page behind the one being fetched.
            decoding: asyncio.Task[pa.Table] | None = None
            try:
                async for large in _large(pages):
                    previous, decoding = decoding, asyncio.create_task(self._decode(large))
                    if previous is not None:
                        yield await previous
                if decoding is not None:
                    yield await decoding
            finally:
                if decoding is not None:
                    decoding.cancel()

    async def _pages(
        self,
        repo: Repository,
        branch: Branch,
        token: StagingToken,
        within: tuple[bytes, bytes | None],
        *,
        first_page: int,
    ) -> AsyncGenerator[Page, None]:
        first, end = within
        page_items = first_page
        while page_items < SCAN_PAGE_ITEMS:
            page = await self._page(token, start=first, end=end, rows_max=page_items)
            await self._require_open(repo, branch, token)
            if page.keys:
                yield page
            if len(page.keys) < page_items:
                return
            first = page.keys[-1] + b"\0"
            # Whoever reads on is served in larger and larger pages.
            page_items *= _PAGE_GROWTH
        async for page in self._kv.scan(token, start=first, end=end):
            await self._require_open(repo, branch, token)
            yield page
        await self._require_open(repo, branch, token)

    async def _page(self, token: StagingToken, *, start: bytes, end: bytes | None, rows_max: int) -> Page:
        """Return the first rows from `start` on, up to so many; fewer only at the end."""
        keys: list[bytes] = []
        values: list[bytes] = []
        pages = self._kv.scan(token, start=start, end=end, page_items_max=rows_max)
        async for page in pages:
            keys += page.keys
            values += page.values
            if len(keys) >= rows_max:
                break
        if isinstance(pages, AsyncGenerator):
            # Left half-way it would be closed by the garbage collector, in a task of its own.
            await pages.aclose()
        return Page(keys[:rows_max], values[:rows_max], [])

    async def _decode(self, pages: list[Page]) -> pa.Table:
        count = sum(map(len, pages))
        if count < _FEW_ROWS:
            rows = [row for page in pages for row in zip(page.keys, page.values, strict=True)]
            return change_block([decode_row(_path(key), value)[0] for key, value in rows])
        if count < _INLINE_ROWS:
            return _decode_pages(pages)
        return await self._workers.run(_decode_pages, pages)

    async def _require_open(self, repo: Repository, branch: Branch, token: StagingToken) -> None:
        # Asked after the rows were read: still open now means that nothing had been dropped before.
        if await self._kv.get(token, OPEN_KEY) is None:
            await self._require_named(repo, branch, token)

    async def _require_named(self, repo: Repository, branch: Branch, token: StagingToken) -> None:
        current = (await self._branches.get(repo, branch.name)).value
        if not names_token(current, token):
            raise LayersMovedError(token)


def _path(key: bytes) -> Path:
    return Path(key[len(ROW_PREFIX) :].decode())


def _keys_between(start: str, stop: str | None, prefix: str) -> tuple[bytes, bytes | None]:
    end = prefix_end(row_key(prefix)) if prefix else _ROWS_END
    assert end is not None, "rows have a prefix"
    return row_key(max(start, prefix)), end if stop is None else min(end, row_key(stop))


def _decode_pages(pages: list[Page]) -> pa.Table:
    keys, values = zip(*(page.spans() for page in pages), strict=True)
    return decode_rows(Spans.concat(keys), Spans.concat(values))


async def _large(pages: AsyncIterator[Page]) -> AsyncIterator[list[Page]]:
    """Yield pages that together make a whole scan page: decoding costs more for each call than for each row."""
    held: list[Page] = []
    rows = 0
    async for page in pages:
        held.append(page)
        rows += len(page)
        if rows >= SCAN_PAGE_ITEMS:
            yield held
            held, rows = [], 0
    if held:
        yield held
