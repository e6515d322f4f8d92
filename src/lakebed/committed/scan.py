"""Entries of a tree in key order, as slices of its mapped ranges."""

from collections.abc import AsyncGenerator
from dataclasses import dataclass

import pyarrow as pa

from lakebed.committed.reader import TreeReader
from lakebed.model.ids import MetarangeId


@dataclass(frozen=True, slots=True)
class KeyBounds:
    """Keys from `start` up to but without `stop` (None: no end)."""

    start: bytes
    stop: bytes | None


def bounds(*, start: str = "", prefix: str = "", after: str = "") -> KeyBounds:
    """Return where keys lie that are at least `start`, begin with `prefix` and are greater than `after`."""
    low = max(start.encode(), prefix.encode())
    if after:
        low = max(low, after.encode() + b"\x00")
    return KeyBounds(low, past(prefix))


def past(prefix: str) -> bytes | None:
    """Return the smallest bytes greater than everything that begins with `prefix`, or None for "".

    >>> past("a/")
    b'a0'
    """
    raw = prefix.encode()
    # No byte of UTF-8 is 0xff, so adding one to the last always works.
    return raw[:-1] + bytes([raw[-1] + 1]) if raw else None


async def scan(reader: TreeReader, tree: MetarangeId, within: KeyBounds) -> AsyncGenerator[pa.Table, None]:
    """Yield the entries within the bounds as entry blocks that are not empty. Nothing is copied."""
    opened = reader.peek_tree(tree)
    if opened is None:
        opened = await reader.tree(tree)
    for index in range(opened.seek(within.start), len(opened.ranges)):
        info = opened.ranges[index]
        if within.stop is not None and info.min_key.encode() >= within.stop:
            return
        found = reader.peek(info)
        if found is None:
            found = await reader.range(info)
        if within.start <= info.min_key.encode() and (
            within.stop is None or info.max_key.encode() < within.stop
        ):
            yield found.block
            continue
        block = found.between(within.start, within.stop)
        if block.num_rows:
            yield block
