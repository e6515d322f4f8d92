"""`Balance`: how many connections each worker has, in memory that all of them see.

Workers accept from one socket, and the first to wake up would take all that wait there:
32 connections over two workers were seen to fall 31 to 1, which halves what both can do.
"""

import multiprocessing
from collections.abc import MutableSequence
from dataclasses import dataclass
from typing import Self


@dataclass(frozen=True, slots=True)
class Balance:
    """The numbers of all workers, and which is ours. Only we change ours."""

    counts: MutableSequence[int]
    slot: int = 0

    @classmethod
    def over(cls, workers: int) -> Self:
        """Return the numbers of so many new workers; they can be handed to processes that are started."""
        return cls(multiprocessing.get_context("spawn").RawArray("l", workers))

    def of(self, slot: int) -> "Balance":
        """Return the same numbers as another worker sees them."""
        return Balance(self.counts, slot)

    def note(self, count: int) -> None:
        """Say how many connections we have."""
        self.counts[self.slot] = count

    def is_ours(self) -> bool:
        """Return whether nobody has fewer than we."""
        return self.counts[self.slot] <= min(self.counts)
