"""Three-way merge of trees.

For each span of keys, hashes decide first: where the source equals base or dest,
the dest's ranges stay; where only the source changed, its ranges are taken whole.
Only where both changed are rows compared. All spans are decided before anything
is written, so a merge that ends in conflicts leaves nothing behind.
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
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._workers = workers
        self._sides = [base, source, dest]
        self._source, self._dest = source, dest
        self._strategy = strategy
        self._counts = ChangeCounts()
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
        """Return what the merged tree has in a span, and what that changes on the dest."""
        base, source, dest = span.ranges
        if alike(source, base) or alike(source, dest):
            return Part.of(self._dest, dest, span), ChangeCounts()
        if alike(dest, base):
            return Part.of(self._source, source, span), await self._count(span)
        rows = await self._reader.rows(dest, span)
        resolution = self._kept.pop(span.start, None)
        if resolution is None:
            _, resolution = await self._resolve(span)
        merged, counts = await self._workers.run(apply_changes, rows, resolution.changes)
        return (Part.of(self._dest, dest, span) if merged is rows else merged), counts

    async def _resolve(self, span: Span) -> tuple[Span, Resolution]:
        base, source, dest = [await self._reader.rows(info, span) for info in span.ranges]
        return span, await self._workers.run(merge_blocks, base, source, dest, strategy=self._strategy)

    async def _count(self, span: Span) -> ChangeCounts:
        """Return what it changes on the dest to take the source's rows in a span."""
        _, source, dest = span.ranges
        if dest is None:
            return ChangeCounts(added=await self._reader.count(source, span))
        if source is None:
            return ChangeCounts(removed=await self._reader.count(dest, span))
        ours, theirs = await self._reader.rows(dest, span), await self._reader.rows(source, span)
        delta = await self._workers.run(compare_blocks, ours, theirs)
        return delta.counts


def _is_mixed(span: Span) -> bool:
    base, source, dest = span.ranges
    return not (alike(source, base) or alike(source, dest) or alike(dest, base))
