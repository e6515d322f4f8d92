"""`IdSource`: the only source of chance, so that a seed replays a whole run."""

import os
import random  # noqa: TID251  the one place that may
from typing import Protocol

_ALPHABET = "0123456789abcdefghijklmnopqrstuv"
_PAIRS = [first + second for first in _ALPHABET for second in _ALPHABET]


class IdSource(Protocol):
    """Random names and jitter."""

    def token(self) -> str:
        """Return 20 characters of 0-9a-v that no one else will ever return (100 random bits)."""
        ...

    def jitter(self) -> float:
        """Return a number in [0.5, 1.5), to spread retries."""
        ...


class SystemIds:
    """Chance from the operating system."""

    def token(self) -> str:
        return encode_base32(int.from_bytes(os.urandom(13)) >> 4)  # noqa: TID251

    def jitter(self) -> float:
        return 0.5 + random.random()  # noqa: S311  not a secret


class SeededIds:
    """Chance from a seed, for tests and the simulation."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)  # noqa: S311

    def token(self) -> str:
        return encode_base32(self._random.getrandbits(100))

    def jitter(self) -> float:
        return 0.5 + self._random.random()


def encode_base32(number: int, *, width: int = 20) -> str:
    """Return `number` in `width` characters of 0-9a-v, whose text order is the order of numbers.

    >>> encode_base32(33, width=3)
    '011'
    """
    assert 0 <= number < 32**width
    # Two characters at a time: every write needs a few of these.
    pairs = [_PAIRS[(number >> shift) & 1023] for shift in range(10 * ((width - 1) // 2), -1, -10)]
    return "".join(pairs)[-width:]
