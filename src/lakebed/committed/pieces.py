"""A new tree as it is being made: a sequence of pieces in key order, cut into ranges.

A piece is rows, or a whole range of an existing tree. Because where a range ends
depends on its own rows alone, a whole range is taken as it is whenever a range
may start at its first row; otherwise its rows are read and cut anew, until the
cuts fall into step again. That is all there is to sharing ranges between trees.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import TypeAlias

import pyarrow as pa

from lakebed.committed.opened import OpenRange
from lakebed.committed.spans import Span
from lakebed.committed.tree import Tree
from lakebed.env.work import Workers
from lakebed.format.cut import CutRule, Cutter
from lakebed.format.metaranges import RangeInfo


@dataclass(frozen=True, slots=True)
class Whole:
    """All rows of a range. The `last` of a tree may have ended only because nothing followed."""

    info: RangeInfo
    last: bool


Piece: TypeAlias = Whole | pa.Table


@dataclass(frozen=True, slots=True)
class Part:
    """The rows of a range that lie in a span."""

    info: RangeInfo
    last: bool
    span: Span

    @classmethod
    def of(cls, tree: Tree, info: RangeInfo | None, span: Span) -> "Part | None":
        """Return what `tree` has in the span, where `info` is its range there."""
        return cls(info, last=info == tree.ranges[-1], span=span) if info is not None else None

    def then(self, following: "Part") -> "Part":
        """Return this part and the one that follows it as one."""
        assert following.info == self.info, "of one range"
        return Part(self.info, self.last, Span(self.span.start, following.span.stop, self.span.ranges))


async def join_parts(
    parts: AsyncGenerator[Part | pa.Table, None], *, read: Callable[[RangeInfo], Awaitable[OpenRange]]
) -> AsyncGenerator[Piece, None]:
    """Yield the parts as pieces: a range of which all parts come one after the other is whole again."""
    held: Part | None = None
    async with aclosing(parts):
        async for part in parts:
            if held is not None and isinstance(part, Part) and part.info == held.info:
                held = held.then(part)
                continue
            if held is not None:
                yield await _piece(held, read)
            held = part if isinstance(part, Part) else None
            if held is None:
                yield part
    if held is not None:
        yield await _piece(held, read)


async def _piece(part: Part, read: Callable[[RangeInfo], Awaitable[OpenRange]]) -> Piece:
    if part.span.holds(part.info):
        return Whole(part.info, part.last)
    return (await read(part.info)).between(part.span.start, part.span.stop)


async def cut_pieces(
    pieces: AsyncGenerator[Piece, None],
    *,
    rule: CutRule,
    read: Callable[[RangeInfo], Awaitable[pa.Table]],
    workers: Workers,
) -> AsyncGenerator[RangeInfo | pa.Table, None]:
    """Yield the ranges of the new tree: those taken as they are, and the rows of those to be written."""
    cutter = Cutter(rule)
    # A taken range that would go on if rows followed.
    unfinished: RangeInfo | None = None
    async with aclosing(pieces):
        async for piece in pieces:
            rows: list[pa.Table] = []
            if unfinished is not None:
                rows.append(await read(unfinished))
                unfinished = None
            if isinstance(piece, pa.Table):
                rows.append(piece)
            elif rows or not cutter.is_empty:
                rows.append(await read(piece.info))
            elif piece.last and not rule.ends_by_key(piece.info.max_key):
                unfinished = piece.info
            else:
                yield piece.info
            for block in rows:
                for done in await workers.run(cutter.feed, block):
                    yield done
    if unfinished is not None:
        yield unfinished
    rest = cutter.finish()
    if rest is not None:
        yield rest
