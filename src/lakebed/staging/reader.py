"""Reads of a branch's layers, newest first.

A layer that left its branch stays readable for a grace period, but a reader may
be slower than that, and a partition that was dropped must not read as empty.
So every token has an `open` row from its first write on, `drop` removes it
before anything else, and a read that does not see it in the same snapshot (or
later than what it read) reads the branch record again: if the token is still
named, nobody has written to it yet; if not, the read starts over. A segment whose
file is gone is told apart in the same way, only that a named one is then lost.
"""

import asyncio
from bisect import bisect_left
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import TypeVar

import pyarrow as pa

from lakebed.env.work import Workers
from lakebed.errors import ConflictError, CorruptError, ErrorKind, NotFoundError, UnavailableError
from lakebed.format.blocks import change_block
from lakebed.format.bloom import key_hash
from lakebed.format.rows import OPEN_KEY, ROW_PREFIX, decode_row, decode_rows, is_tombstone, row_key
from lakebed.format.spans import Spans
from lakebed.kv.port import KVStore, Page, Version, prefix_end
from lakebed.limits import SCAN_PAGE_ITEMS, SEGMENTS_AHEAD, SWAP_ATTEMPTS_MAX
from lakebed.model.branch import Branch
from lakebed.model.entries import Change
from lakebed.model.ids import Nonce, Path, StagingToken
from lakebed.model.layers import Layer, SegmentLayer, TokenLayer, layer_name
from lakebed.model.repository import Repository
from lakebed.model.segments import segment_key
from lakebed.staging.port import Branches, OpenSegment, Segments
from lakebed.staging.record import layers_of, names_layer, tokens_of
from lakebed.staging.runs import merge_runs
from lakebed.staging.sieve import FEW_LAYERS, Sieves
from lakebed.staging.token_filters import TokenFilters

A = TypeVar("A")

_ROWS_END = prefix_end(ROW_PREFIX)
# Below the first number of rows, decoding them one by one costs less than setting up a block; below the
# second, decoding them here costs less than handing them to another thread.
_FEW_ROWS = 24
_INLINE_ROWS = 2_000
_PAGE_GROWTH = 4


class LayersMovedError(ConflictError):
    """A layer that was being read has left the branch and is gone: read the branch record again."""

    def __init__(self, layer: Layer) -> None:
        super().__init__(
            ErrorKind.VERSION_CHANGED, f"layer {layer_name(layer)} left its branch while it was being read"
        )


@dataclass(frozen=True, slots=True)
class Staged:
    """The newest staged change of a path, and where it lies: a row of a token, or else a segment."""

    change: Change
    token: StagingToken | None = None
    version: Version | None = None
    nonce: Nonce = Nonce("")


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
    """Reads rows of tokens, and segments."""

    def __init__(self, kv: KVStore, branches: Branches, segments: Segments, workers: Workers) -> None:
        self._kv = kv
        self._branches = branches
        self._segments = segments
        self._workers = workers
        self._token_filters = TokenFilters(kv, workers)
        self._sieves = Sieves(segments, self._token_filters)

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
        bounds = _paths_between(within)
        layers = [layer for layer in layers_of(branch) if _meets(layer, bounds)]
        opened = await self._open_all(repo, branch, layers)
        runs = [
            self._scan_token(repo, branch, layer.token, within, first_page=first_page)
            if isinstance(layer, TokenLayer)
            else _scan_segment(opened[layer_name(layer)], bounds, first_page=first_page)
            for layer in layers
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
        within = _keys_between(start, None, prefix)
        bounds = _paths_between(within)
        layers = [layer for layer in layers_of(branch) if _meets(layer, bounds)]
        opened = await self._open_all(repo, branch, layers)
        newest: dict[bytes, bool] = {}
        stop: bytes | None = None
        for layer in layers:
            if isinstance(layer, TokenLayer):
                page = await self._page(layer.token, start=within[0], end=within[1], rows_max=rows)
                await self._require_open(repo, branch, layer.token)
                keys, deleted = page.keys, map(is_tombstone, page.values)
            else:
                block = opened[layer_name(layer)].between(*bounds).slice(0, rows)
                keys = [row_key(path) for path in block.column("key").to_pylist()]
                deleted = iter(block.column("deleted").to_pylist())
            if len(keys) == rows:
                reached = keys[-1] + b"\0"
                stop = reached if stop is None else min(stop, reached)
            for key, gone in zip(keys, deleted, strict=True):
                newest.setdefault(key, gone)
        known = sorted(key for key in newest if stop is None or key < stop)
        return StagedKeys(
            start,
            _path(stop) if stop is not None else None,
            [_path(key) for key in known],
            [newest[key] for key in known],
        )

    async def learn(self, branch: Branch) -> None:
        """Read what tells the sealed tokens apart that hold a path, for a branch that is being read and has many layers."""
        if len(branch.sealed) <= FEW_LAYERS:
            return
        for layer in branch.sealed:
            if isinstance(layer, TokenLayer):
                await self._token_filters.learn(layer.token)

    async def _lookup(self, repo: Repository, branch: Branch, path: Path) -> Staged | None:
        sieve = self._sieves.find(repo, branch) if branch.sealed else None
        above: list[SegmentLayer] | None = None
        hashed = 0
        if sieve is None:
            tokens: Sequence[StagingToken] = tokens_of(branch)
        else:
            hashed = key_hash(path)
            yes = sieve.may_hold(sieve.reaching(path), hashed)
            tokens, above = sieve.tokens(branch, yes), sieve.segments(yes)
        found = await self._find_row(repo, branch, tokens, path)
        if not branch.sealed or (found is not None and found.token == branch.staging_token):
            return found
        if above is None:
            above = [
                layer
                for layer in branch.sealed
                if isinstance(layer, SegmentLayer) and layer.min_key <= path <= layer.max_key
            ]
            hashed = key_hash(path) if above else 0
        if found is not None:
            seq = next(layer.seq for layer in branch.sealed if layer_name(layer) == found.token)
            above = [layer for layer in above if layer.seq > seq]
        if not above:
            return found
        newer = await self._find_in(repo, branch, above, path, hashed)
        return found if newer is None else Staged(newer)

    async def _find_row(
        self, repo: Repository, branch: Branch, tokens: Sequence[StagingToken], path: Path
    ) -> Staged | None:
        """Return the newest row of `path` in the branch's tokens, newest first."""
        if not tokens:
            return None
        key = row_key(path)
        items = await self._kv.get_many([(t, k) for t in tokens for k in (key, OPEN_KEY)])
        for index, token in enumerate(tokens):
            row, open_row = items[2 * index], items[2 * index + 1]
            if open_row is None:
                await self._require_named(repo, branch, TokenLayer(token=token, seq=0))
            elif row is not None:
                change, nonce = decode_row(path, row.value)
                return Staged(change, token, row.version, nonce)
        return None

    async def _find_in(
        self, repo: Repository, branch: Branch, layers: list[SegmentLayer], path: Path, hashed: int
    ) -> Change | None:
        """Return the newest change of `path`, whose hash is at hand, in segments, newest first."""
        found: Change | None = None
        newer: list[SegmentLayer] = []
        for layer in layers:
            if self._segments.rules_out(repo, layer, hashed):
                continue
            opened = self._segments.peek(repo, layer)
            if opened is None:
                newer.append(layer)
                continue
            found = opened.find_change(path)
            if found is not None:
                break

        async def find(layer: SegmentLayer) -> Change | None:
            await self._segments.learn(repo, layer)
            if self._segments.rules_out(repo, layer, hashed):
                return None
            return (await self._segments.open(repo, layer)).find_change(path)

        for start in range(0, len(newer), SEGMENTS_AHEAD):
            part = newer[start : start + SEGMENTS_AHEAD]
            for change in await self._together(repo, branch, part, find):
                if change is not None:
                    return change
        return found

    async def _open_all(
        self, repo: Repository, branch: Branch, layers: Iterable[Layer]
    ) -> dict[str, OpenSegment]:
        """Return the segments among the layers, fetched some at a time."""
        segments = [layer for layer in layers if isinstance(layer, SegmentLayer)]

        async def open_one(layer: SegmentLayer) -> OpenSegment:
            return await self._segments.open(repo, layer)

        opened: dict[str, OpenSegment] = {}
        for start in range(0, len(segments), SEGMENTS_AHEAD):
            part = segments[start : start + SEGMENTS_AHEAD]
            found = await self._together(repo, branch, part, open_one)
            opened |= zip(map(layer_name, part), found, strict=True)
        return opened

    async def _together(
        self,
        repo: Repository,
        branch: Branch,
        layers: list[SegmentLayer],
        read: Callable[[SegmentLayer], Awaitable[A]],
    ) -> list[A]:
        """Return what `read` makes of each layer.

        Raises:
            LayersMovedError: the file of one is gone, and the layer with it.
            CorruptError: the file of one is gone, and the branch still shows it.
        """

        async def one(layer: SegmentLayer) -> A:
            try:
                return await read(layer)
            except NotFoundError as error:
                await self._require_named(repo, branch, layer)
                raise CorruptError(
                    ErrorKind.FILE_MISSING,
                    f"{segment_key(layer.id)} is missing from the namespace: restore it from a backup",
                ) from error

        if len(layers) == 1:
            return [await one(layers[0])]
        results = await asyncio.gather(*map(one, layers), return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                raise result
        return [result for result in results if not isinstance(result, BaseException)]

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
            await self._require_named(repo, branch, TokenLayer(token=token, seq=0))

    async def _require_named(self, repo: Repository, branch: Branch, layer: Layer) -> None:
        current = (await self._branches.get(repo, branch.name)).value
        if not names_layer(current, layer):
            raise LayersMovedError(layer)


def _path(key: bytes) -> Path:
    return Path(key[len(ROW_PREFIX) :].decode())


def _keys_between(start: str, stop: str | None, prefix: str) -> tuple[bytes, bytes | None]:
    end = prefix_end(row_key(prefix)) if prefix else _ROWS_END
    assert end is not None, "rows have a prefix"
    return row_key(max(start, prefix)), end if stop is None else min(end, row_key(stop))


def _paths_between(within: tuple[bytes, bytes | None]) -> tuple[bytes, bytes | None]:
    """Return the bounds of row keys as bounds of paths."""
    first, end = within
    size = len(ROW_PREFIX)
    return first[size:], None if end is None or end == _ROWS_END else end[size:]


def _meets(layer: Layer, bounds: tuple[bytes, bytes | None]) -> bool:
    """Return whether a layer may have something between two paths."""
    if isinstance(layer, TokenLayer):
        return True
    start, stop = bounds
    return layer.max_key.encode() >= start and (stop is None or layer.min_key.encode() < stop)


async def _scan_segment(
    opened: OpenSegment, bounds: tuple[bytes, bytes | None], *, first_page: int
) -> AsyncGenerator[pa.Table, None]:
    """Yield the changes of a segment, in larger and larger blocks, as of a token."""
    block, at, rows = opened.between(*bounds), 0, first_page
    while at < block.num_rows:
        yield block.slice(at, rows)
        at += rows
        rows = min(rows * _PAGE_GROWTH, SCAN_PAGE_ITEMS)


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
