"""Three-way merge of trees.

For each span of keys, hashes decide first: where the source equals base or dest,
the dest's ranges stay; where only the source changed, its ranges are taken whole.
Only where both changed are rows compared. All spans are decided before anything
is written, so a merge that ends in conflicts leaves nothing behind.

A merge that is done again because its dest has moved meanwhile is told of the first
one: where the dest is what it was, so is the result. It then takes about as long as
what has changed, however long the first one took. Nothing comes from files that only
the dest of old has: its ranges are taken from the new dest, which has them too.
"""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass

import pyarrow as pa

from lakebed.committed.pieces import Part, Piece, join_parts
from lakebed.committed.pipeline import in_order
from lakebed.committed.reader import TreeReader
from lakebed.committed.spans import Span, alike, spans
from lakebed.committed.tree import Tree
from lakebed.committed.writer import TreeWriter
from lakebed.env.work import Workers
from lakebed.format.diff import Resolution, compare_blocks, merge_blocks
from lakebed.format.merge import apply_changes
from lakebed.format.metaranges import RangeInfo
from lakebed.limits import CONFLICTS_LISTED_MAX, MERGE_KEPT_BYTES_MAX, RANGES_AHEAD
from lakebed.model.diffs import ChangeCounts, MergeStrategy
from lakebed.model.ids import MetarangeId, Nonce


@dataclass(frozen=True, slots=True, kw_only=True)
class MergedTree:
    """A merge's tree and what it changes on the dest by identity.

    With `conflicts` (the first of them, `conflicts_total` in all) nothing was
    merged, and the tree is the dest's. Under a strategy there are none.
    """

    id: MetarangeId
    counts: ChangeCounts
    conflicts: tuple[str, ...] = ()
    conflicts_total: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Earlier:
    """What the same merge came to with another dest."""

    dest: Tree
    tree: Tree
    counts: ChangeCounts


class Merge:
    """One merge of `source` into `dest`, both made from `base`."""

    def __init__(
        self,
        reader: TreeReader,
        writer: TreeWriter,
        workers: Workers,
        *,
        base: Tree,
        source: Tree,
        dest: Tree,
        strategy: MergeStrategy,
        earlier: Earlier | None = None,
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._workers = workers
        self._sides = [base, source, dest]
        self._source, self._dest = source, dest
        self._strategy = strategy
        self._earlier = earlier
        self._counts = ChangeCounts()
        if earlier is not None:
            self._sides += [earlier.dest, earlier.tree]
            self._counts = earlier.counts
        self._kept: dict[bytes, Resolution] = {}

    async def run(self, *, nonce: Nonce) -> MergedTree:
        """Merge, or find the conflicts that forbid it."""
        conflicts, total = await self._conflicts()
        if total:
            return MergedTree(
                id=self._dest.id,
                counts=ChangeCounts(),
                conflicts=tuple(conflicts),
                conflicts_total=total,
            )
        # Not the earlier tree: some of its files may be those of a dest that nobody protects any more.
        tree = await self._writer.build(self._pieces(), nonce=nonce, known=[self._dest, self._source])
        return MergedTree(id=tree.id, counts=self._counts)

    async def _conflicts(self) -> tuple[list[str], int]:
        """Decide every span in which both sides changed; return the first conflicts, and how many there are."""

        async def mixed() -> AsyncGenerator[Span, None]:
            for span in spans(self._sides):
                if _is_mixed(span):
                    yield span

        listed: list[str] = []
        total = kept_bytes = 0
        async with aclosing(in_order(mixed(), self._resolve, ahead=RANGES_AHEAD)) as resolved:
            async for span, resolution in resolved:
                total += len(resolution.conflicts)
                room = CONFLICTS_LISTED_MAX - len(listed)
                listed.extend(resolution.conflicts.slice(0, room).to_pylist())
                kept_bytes += resolution.changes.nbytes
                if kept_bytes <= MERGE_KEPT_BYTES_MAX:
                    self._kept[span.start] = resolution
        return listed, total

    async def _pieces(self) -> AsyncGenerator[Piece, None]:
        async def every() -> AsyncGenerator[Span, None]:
            for span in spans(self._sides):
                yield span

        async def parts() -> AsyncGenerator[Part | pa.Table, None]:
            async with aclosing(in_order(every(), self._decide, ahead=RANGES_AHEAD)) as decided:
                async for part, counts in decided:
                    self._counts = self._counts + counts
                    if part is not None:
                        yield part

        async with aclosing(join_parts(parts(), read=self._reader.range)) as joined:
            async for piece in joined:
                yield piece

    async def _decide(self, span: Span) -> tuple[Part | pa.Table | None, ChangeCounts]:
        """Return what the merged tree has in a span, and what that changes on the dest, beyond what it did before."""
        if self._earlier is None:
            return await self._merge(span)
        if _is_as_before(span):
            return self._as_before(self._earlier.tree, span), ChangeCounts()
        part, counts = await self._merge(span)
        _, _, _, dest, merged = span.ranges
        return part, counts - await self._count(span, dest, merged)

    def _as_before(self, tree: Tree, span: Span) -> Part | None:
        """Return what the earlier merge has in a span, if it can be from a tree that is sure to stay."""
        _, source, dest, _, merged = span.ranges
        if alike(merged, dest):
            return Part.of(self._dest, dest, span)
        if alike(merged, source):
            return Part.of(self._source, source, span)
        return Part.of(tree, merged, span)

    async def _merge(self, span: Span) -> tuple[Part | pa.Table | None, ChangeCounts]:
        base, source, dest = span.ranges[:3]
        if alike(source, base) or alike(source, dest):
            return Part.of(self._dest, dest, span), ChangeCounts()
        if alike(dest, base):
            return Part.of(self._source, source, span), await self._count(span, dest, source)
        rows = await self._reader.rows(dest, span)
        resolution = self._kept.pop(span.start, None)
        if resolution is None:
            _, resolution = await self._resolve(span)
        merged, counts = await self._workers.run(apply_changes, rows, resolution.changes, exact=True)
        return (Part.of(self._dest, dest, span) if merged is rows else merged), counts

    async def _resolve(self, span: Span) -> tuple[Span, Resolution]:
        base, source, dest = [await self._reader.rows(info, span) for info in span.ranges[:3]]
        return span, await self._workers.run(merge_blocks, base, source, dest, strategy=self._strategy)

    async def _count(self, span: Span, before: RangeInfo | None, after: RangeInfo | None) -> ChangeCounts:
        """Return what it changes to have the rows of one range instead of another's in a span."""
        if alike(before, after):
            return ChangeCounts()
        if before is None:
            return ChangeCounts(added=await self._reader.count(after, span))
        if after is None:
            return ChangeCounts(removed=await self._reader.count(before, span))
        ours, theirs = await self._reader.rows(before, span), await self._reader.rows(after, span)
        delta = await self._workers.run(compare_blocks, ours, theirs)
        return delta.counts


def _is_mixed(span: Span) -> bool:
    base, source, dest = span.ranges[:3]
    return not (_is_as_before(span) or alike(source, base) or alike(source, dest) or alike(dest, base))


def _is_as_before(span: Span) -> bool:
    """Return whether there was an earlier merge, and the dest has the rows that it had then."""
    dest, *earlier = span.ranges[2:]
    return bool(earlier) and alike(dest, earlier[0])
