"""`Clock`: the only source of time.

Nothing in lakebed may read the time except through a `Clock` (ruff TID251
enforces it), so a test owns time completely: it can stop it, jump it past a
lease, or skew two processes against each other.
"""

import asyncio
import time
from typing import NewType, Protocol

Instant = NewType("Instant", int)
"""Microseconds since the Unix epoch. An integer, so that "one later" exists."""

SECOND: int = 1_000_000


def after(start: Instant, seconds: float) -> Instant:
    """Return the instant `seconds` after `start` (before it when negative)."""
    return Instant(start + round(seconds * SECOND))


class Clock(Protocol):
    """Wall-clock time and waiting."""

    def now(self) -> Instant:
        """Return the current time. It may be wrong, so no safety rests on it."""
        ...

    def monotonic(self) -> float:
        """Return seconds that never go back, for measuring how long something took."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Return after at least `seconds` on this clock."""
        ...


class SystemClock:
    """The machine's clock."""

    def now(self) -> Instant:
        return Instant(time.time_ns() // 1000)  # noqa: TID251  the one place that may

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
