"""`Trees`: what one repository can do with its committed trees.

A thin facade: each operation has its own module. A tree is named by its
metarange's id and never changes; `EMPTY_TREE` is the one without entries. An
operation that makes a tree takes the nonce of the commit, merge or import it
belongs to, which protects its files until something refers to them.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass

import pyarrow as pa

from lakebed.committed import apply, diff, lookup, replace, scan
from lakebed.committed.cache import RangeCache
from lakebed.committed.merge import Earlier, Merge, MergedTree
from lakebed.committed.pieces import Piece
from lakebed.committed.reader import TreeReader
from lakebed.committed.writer import TreeWriter
from lakebed.env.work import Workers
from lakebed.format.cut import DEFAULT_RULE, CutRule
from lakebed.format.metaranges import RangeInfo
from lakebed.model.diffs import ChangeCounts, MergeStrategy
from lakebed.model.entries import Entry
from lakebed.model.ids import MetarangeId, Nonce
from lakebed.objects.port import ObjectStore


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenTree:
    """A tree and how many entries it has."""

    id: MetarangeId
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AppliedTree:
    """A tree made from another, and what changed for a user."""

    id: MetarangeId
    counts: ChangeCounts


@dataclass(frozen=True, slots=True, kw_only=True)
class MergedInto:
    """A dest, and what a merge into it came to: no conflicts."""

    dest: MetarangeId
    merged: MergedTree


class Trees:
    """The trees of one namespace.

    Every method that reads raises `CorruptError` if a file is missing (`FILE_MISSING`),
    damaged, or of a newer version. `scope` tells namespaces that share a cache apart.
    """

    def __init__(
        self,
        store: ObjectStore,
        cache: RangeCache,
        workers: Workers,
        *,
        scope: str = "",
        rule: CutRule = DEFAULT_RULE,
    ) -> None:
        self._workers = workers
        self._reader = TreeReader(store, cache, workers, scope=scope)
        self._writer = TreeWriter(store, self._reader, workers, rule=rule)

    async def ranges(self, tree: MetarangeId) -> Sequence[RangeInfo]:
        """Return the ranges of a tree, in key order."""
        return (await self._reader.tree(tree)).ranges

    async def range(self, info: RangeInfo) -> pa.Table:
        """Return the entries of one range."""
        return (await self._reader.range(info)).block

    def is_open(self, info: RangeInfo) -> bool:
        """Return whether the entries of one range are at hand."""
        return self._reader.peek(info) is not None

    async def lookup(self, tree: MetarangeId, path: str) -> Entry | None:
        """Return the entry of `path`, or None."""
        return await lookup.lookup(self._reader, tree, path)

    async def lookup_many(
        self, tree: MetarangeId, paths: Sequence[str] | pa.Array | pa.ChunkedArray
    ) -> pa.Table:
        """Return those of the sorted `paths` that exist, as an entry block."""
        wanted = pa.table(
            {"key": paths if isinstance(paths, pa.ChunkedArray) else pa.array(paths, pa.string())}
        )
        opened = await self._reader.tree(tree)
        return await lookup.lookup_many(self._reader, self._workers, opened, wanted)

    def scan(
        self, tree: MetarangeId, *, start: str = "", prefix: str = "", after: str = ""
    ) -> AsyncGenerator[pa.Table, None]:
        """Yield entry blocks in key order: keys from `start` on, that begin with `prefix`, greater than `after`.

        Blocks are slices of mapped files, up to a whole range each, and cost nothing until they are read.
        """
        return scan.scan(self._reader, tree, scan.bounds(start=start, prefix=prefix, after=after))

    async def write(self, blocks: AsyncIterator[pa.Table], *, nonce: Nonce) -> WrittenTree:
        """Store a tree of entry blocks in key order."""

        async def pieces() -> AsyncGenerator[Piece, None]:
            async for block in blocks:
                yield block

        tree = await self._writer.build(pieces(), nonce=nonce)
        return WrittenTree(id=tree.id, count=tree.count)

    async def apply(
        self,
        base: MetarangeId,
        changes: pa.Table | AsyncIterator[pa.Table],
        *,
        nonce: Nonce,
        exact: bool = False,
    ) -> AppliedTree:
        """Store `base` with change blocks, in key order, applied. If no row changes, the result is `base` itself.

        A row that a user cannot tell from the one below is no change, unless `exact`.
        """
        tree, counts = await apply.apply(
            self._reader,
            self._writer,
            self._workers,
            await self._reader.tree(base),
            _blocks(changes),
            nonce=nonce,
            exact=exact,
        )
        return AppliedTree(id=tree.id, counts=counts)

    async def diff(
        self,
        left: MetarangeId,
        right: MetarangeId,
        *,
        start: str = "",
        prefix: str = "",
        after: str = "",
        remember: bool = False,
    ) -> AsyncGenerator[pa.Table, None]:
        """Yield what differs by identity, as diff blocks in key order; the bounds are those of `scan`.

        `remember` is for two trees that will be compared again soon, page by page.
        """
        ours, theirs = await self._reader.tree(left), await self._reader.tree(right)
        within = scan.bounds(start=start, prefix=prefix, after=after)
        async with aclosing(
            diff.diff(self._reader, self._workers, ours, theirs, within, remember=remember)
        ) as blocks:
            async for block in blocks:
                yield block

    async def merge(
        self,
        base: MetarangeId,
        source: MetarangeId,
        dest: MetarangeId,
        *,
        strategy: MergeStrategy = MergeStrategy.NONE,
        earlier: MergedInto | None = None,
        nonce: Nonce,
    ) -> MergedTree:
        """Store `dest` with what changed from `base` to `source`. Conflicts without a strategy store nothing.

        `earlier` is what the same came to with another dest, stored under the same nonce.
        """
        merge = Merge(
            self._reader,
            self._writer,
            self._workers,
            base=await self._reader.tree(base),
            source=await self._reader.tree(source),
            dest=await self._reader.tree(dest),
            strategy=strategy,
            earlier=await self._earlier(earlier) if earlier is not None else None,
        )
        return await merge.run(nonce=nonce)

    async def _earlier(self, earlier: MergedInto) -> Earlier:
        return Earlier(
            dest=await self._reader.tree(earlier.dest),
            tree=await self._reader.tree(earlier.merged.id),
            counts=earlier.merged.counts,
        )

    async def replace_prefixes(
        self, dest: MetarangeId, prefixes: Sequence[str], source: MetarangeId, *, nonce: Nonce
    ) -> AppliedTree:
        """Store `dest` without anything that begins with one of `prefixes`, and with all entries of `source`."""
        tree, counts = await replace.replace(
            self._reader,
            self._writer,
            self._workers,
            dest=await self._reader.tree(dest),
            source=await self._reader.tree(source),
            zones=replace.Zones.under(prefixes),
            nonce=nonce,
        )
        return AppliedTree(id=tree.id, counts=counts)


async def _blocks(changes: pa.Table | AsyncIterator[pa.Table]) -> AsyncIterator[pa.Table]:
    if isinstance(changes, pa.Table):
        yield changes
        return
    async for block in changes:
        yield block
