"""Differences between two trees. What has equal hashes is skipped without being read."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from functools import partial

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
    reader: TreeReader,
    workers: Workers,
    left: Tree,
    right: Tree,
    within: KeyBounds,
    *,
    remember: bool = False,
) -> AsyncGenerator[pa.Table, None]:
    """Yield the differences within the bounds as diff blocks that are not empty, in key order.

    With `remember`, whole spans are compared, whatever the bounds, and kept in memory for whoever asks next: trees
    never change.
    """

    async def unlike() -> AsyncGenerator[Span, None]:
        for span in spans([left, right], start=within.start, stop=within.stop):
            if not alike(*span.ranges):
                yield span

    async def compare(span: Span) -> pa.Table:
        ours, theirs = [await reader.rows(info, span) for info in span.ranges]
        return await workers.run(diff_blocks, ours, theirs)

    async def within_bounds(span: Span) -> pa.Table:
        trimmed = _trimmed(span, within)
        if not remember:
            return await compare(trimmed)
        found = await reader.remember(_name(span), partial(compare, span))
        if trimmed == span or found.block.num_rows == 0:
            return found.block
        return found.between(trimmed.start, trimmed.stop)

    async with aclosing(in_order(unlike(), within_bounds, ahead=RANGES_AHEAD)) as blocks:
        async for block in blocks:
            if block.num_rows:
                yield block


def _name(span: Span) -> str:
    ids = [info.id if info is not None else "" for info in span.ranges]
    return "diff/" + "/".join([*ids, span.start.hex(), span.stop.hex()])


def _trimmed(span: Span, within: KeyBounds) -> Span:
    stop = span.stop if within.stop is None else min(span.stop, within.stop)
    return Span(max(span.start, within.start), stop, span.ranges)
