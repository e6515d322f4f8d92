"""Positions in a block, by binary search on its key column."""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence

import pyarrow as pa


class _Keys(Sequence[str]):
    """The key column as a sequence, decoded one key at a time."""

    def __init__(self, block: pa.Table) -> None:
        self._column = block.column("key")

    def __len__(self) -> int:
        return len(self._column)

    def __getitem__(self, index: int) -> str:  # type: ignore[override]  # bisect asks for single items only
        key: str = self._column[index].as_py()
        return key


def count_below(block: pa.Table, key: str) -> int:
    """Return how many rows have a key smaller than `key`: the position of the first that has not."""
    return bisect_left(_Keys(block), key)


def count_up_to(block: pa.Table, key: str) -> int:
    """Return how many rows have a key of at most `key`."""
    return bisect_right(_Keys(block), key)
