"""The key space of several trees, cut where any of their ranges ends. Pure.

In one span each tree has at most one range, so what is to be done there can be
decided by comparing hashes, before anything is read: ranges with equal hashes
hold equal rows, and so do the parts of them that lie in one span.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lakebed.committed.tree import Tree
from lakebed.format.metaranges import RangeInfo


@dataclass(frozen=True, slots=True)
class Span:
    """Keys from `start` up to but without `stop`, and each tree's range there (None: it has no keys there)."""

    start: bytes
    stop: bytes
    ranges: tuple[RangeInfo | None, ...]

    def holds(self, info: RangeInfo) -> bool:
        """Return whether all of the range lies in this span."""
        return self.start <= info.min_key.encode() and info.max_key.encode() < self.stop


def spans(trees: Sequence[Tree], *, start: bytes = b"", stop: bytes | None = None) -> Iterator[Span]:
    """Yield the spans of `trees` that hold keys from `start` up to but without `stop`, in key order.

    They are not trimmed: the first may begin before `start`, the last end after `stop`, so that a span is the same
    wherever one begins.
    """
    at = [tree.seek(start) for tree in trees]
    low = max((tree.max_keys[i - 1] + b"\x00" for tree, i in zip(trees, at, strict=True) if i), default=b"")
    while True:
        left = [tree.max_keys[i] for tree, i in zip(trees, at, strict=True) if i < len(tree.ranges)]
        if not left or (stop is not None and low >= stop):
            return
        high = min(left)
        found = tuple(_meets(tree, i, high) for tree, i in zip(trees, at, strict=True))
        # The smallest key after `high`.
        beyond = high + b"\x00"
        yield Span(low, beyond, found)
        at = [
            i + 1 if i < len(tree.ranges) and tree.max_keys[i] == high else i
            for tree, i in zip(trees, at, strict=True)
        ]
        low = beyond


def alike(left: RangeInfo | None, right: RangeInfo | None) -> bool:
    """Return whether two trees have equal rows in a span, as far as hashes tell."""
    if left is None or right is None:
        return left is right
    return left.hash == right.hash


def _meets(tree: Tree, index: int, high: bytes) -> RangeInfo | None:
    """Return the tree's next range if it has keys up to `high`."""
    if index == len(tree.ranges):
        return None
    info = tree.ranges[index]
    return info if info.min_key.encode() <= high else None
