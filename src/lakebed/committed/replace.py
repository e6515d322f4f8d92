"""Everything under some prefixes of one tree replaced by another tree: what an import commits.

Ranges of either tree that are needed whole are taken whole; importing the same
files again therefore writes next to nothing.
"""

from bisect import bisect_right
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass

import pyarrow as pa

from lakebed.committed.opened import OpenRange
from lakebed.committed.pieces import Part, Piece, join_parts
from lakebed.committed.pipeline import in_order
from lakebed.committed.reader import TreeReader
from lakebed.committed.scan import past
from lakebed.committed.spans import Span, alike, spans
from lakebed.committed.tree import Tree
from lakebed.committed.writer import TreeWriter
from lakebed.env.work import Workers
from lakebed.format.diff import compare_blocks
from lakebed.format.merge import apply_changes, as_changes
from lakebed.limits import RANGES_AHEAD
from lakebed.model.diffs import ChangeCounts
from lakebed.model.ids import Nonce


@dataclass(frozen=True, slots=True)
class Zones:
    """The keys under any of some prefixes, as disjoint intervals in key order. A `stop` of None has no end."""

    starts: tuple[bytes, ...]
    stops: tuple[bytes | None, ...]

    @classmethod
    def under(cls, prefixes: Sequence[str]) -> "Zones":
        if "" in prefixes:
            return cls((b"",), (None,))
        # Two prefixes are disjoint, or one is the beginning of the other and comes first.
        outermost: list[str] = []
        for prefix in sorted(set(prefixes)):
            if not outermost or not prefix.startswith(outermost[-1]):
                outermost.append(prefix)
        return cls(tuple(p.encode() for p in outermost), tuple(past(p) for p in outermost))

    def gaps(self, start: bytes, stop: bytes) -> list[tuple[bytes, bytes]]:
        """Return what of the keys from `start` up to but without `stop` lies in no zone, as such intervals."""
        found = []
        index = max(0, bisect_right(self.starts, start) - 1)
        while index < len(self.starts) and self.starts[index] < stop:
            if start < self.starts[index]:
                found.append((start, self.starts[index]))
            end = self.stops[index]
            if end is None:
                return found
            start = max(start, end)
            index += 1
        return [*found, (start, stop)] if start < stop else found


async def replace(
    reader: TreeReader,
    writer: TreeWriter,
    workers: Workers,
    *,
    dest: Tree,
    source: Tree,
    zones: Zones,
    nonce: Nonce,
) -> tuple[Tree, ChangeCounts]:
    """Store `dest` without the keys in `zones` and with all entries of `source`, and return it."""
    counts = ChangeCounts()

    async def every() -> AsyncGenerator[Span, None]:
        for span in spans([dest, source]):
            yield span

    async def decide(span: Span) -> tuple[Part | pa.Table | None, ChangeCounts]:
        ours, theirs = span.ranges
        gaps = zones.gaps(span.start, span.stop)
        if alike(ours, theirs) or (theirs is None and gaps == [(span.start, span.stop)]):
            return Part.of(dest, ours, span), ChangeCounts()
        if ours is None:
            return Part.of(source, theirs, span), ChangeCounts(added=await reader.count(theirs, span))
        if theirs is None and not gaps:
            return None, ChangeCounts(removed=await reader.count(ours, span))
        opened = await reader.range(ours)
        old, new = await reader.rows(ours, span), await reader.rows(theirs, span)
        merged, changed = await workers.run(_replaced, opened, old, new, gaps)
        return (Part.of(source, theirs, span) if merged is new else merged), changed

    async def parts() -> AsyncGenerator[Part | pa.Table, None]:
        nonlocal counts
        async with aclosing(in_order(every(), decide, ahead=RANGES_AHEAD)) as decided:
            async for part, changed in decided:
                counts = counts + changed
                if part is not None:
                    yield part

    pieces: AsyncGenerator[Piece, None] = join_parts(parts(), read=reader.range)
    tree = await writer.build(pieces, nonce=nonce, known=[dest, source])
    return tree, counts


def _replaced(
    opened: OpenRange, old: pa.Table, new: pa.Table, gaps: Sequence[tuple[bytes, bytes]]
) -> tuple[pa.Table, ChangeCounts]:
    """Return the rows of a range in the gaps, with `new` over them, and how that differs from `old`."""
    kept = [opened.between(start, stop) for start, stop in gaps]
    below = pa.concat_tables([old.slice(0, 0), *kept])
    merged = new if below.num_rows == 0 else apply_changes(below, as_changes(new), exact=True)[0]
    return merged, compare_blocks(old, merged).counts
