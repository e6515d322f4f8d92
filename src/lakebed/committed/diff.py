"""Differences between two trees. What has equal hashes is skipped without being read."""

from collections.abc import AsyncGenerator
from contextlib import aclosing

import pyarrow as pa

from lakebed.committed.pipeline import in_order
from lakebed.committed.reader import TreeReader
from lakebed.committed.scan import KeyBounds
from lakebed.committed.spans import Span, alike, spans
from lakebed.committed.tree import Tree
from lakebed.env.work import Workers
from lakebed.format.diff import diff_blocks
from lakebed.limits import RANGES_AHEAD


async def diff(
    reader: TreeReader, workers: Workers, left: Tree, right: Tree, within: KeyBounds
) -> AsyncGenerator[pa.Table, None]:
    """Yield the differences within the bounds as diff blocks that are not empty, in key order."""

    async def unlike() -> AsyncGenerator[Span, None]:
        for span in spans([left, right], start=within.start, stop=within.stop):
            if not alike(*span.ranges):
                yield _trimmed(span, within)

    async def compare(span: Span) -> pa.Table:
        ours, theirs = [await reader.rows(info, span) for info in span.ranges]
        return await workers.run(diff_blocks, ours, theirs)

    async with aclosing(in_order(unlike(), compare, ahead=RANGES_AHEAD)) as blocks:
        async for block in blocks:
            if block.num_rows:
                yield block


def _trimmed(span: Span, within: KeyBounds) -> Span:
    stop = span.stop if within.stop is None else min(span.stop, within.stop)
    return Span(max(span.start, within.start), stop, span.ranges)
