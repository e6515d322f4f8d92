"""`Chance`: every choice of a run, drawn from its seed."""

import random  # noqa: TID251  a simulation owns its chance: all of it comes from here
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


class Chance:
    """A stream of choices. `fork` gives a part of the world a stream of its own, so that one more draw in one part
    does not turn every other part upside down.
    """

    def __init__(self, seed: str) -> None:
        self._seed = seed
        self._random = random.Random(seed)

    def fork(self, name: str) -> "Chance":
        return Chance(f"{self._seed}/{name}")

    def happens(self, probability: float) -> bool:
        """Return True with this probability."""
        return self._random.random() < probability

    def below(self, limit: int) -> int:
        """Return a whole number from 0 to `limit` - 1."""
        return int(self._random.random() * limit)

    def between(self, low: float, high: float) -> float:
        return low + (high - low) * self._random.random()

    def pick(self, choices: Sequence[T]) -> T:
        return choices[self.below(len(choices))]

    def weighted(self, choices: Sequence[tuple[T, float]]) -> T:
        """Return one of the choices, each as often as its weight says."""
        drawn = self._random.random() * sum(weight for _, weight in choices)
        for choice, weight in choices:
            drawn -= weight
            if drawn < 0:
                return choice
        return choices[-1][0]

    def number(self) -> int:
        """Return 64 random bits, to seed something else."""
        return self._random.getrandbits(64)
