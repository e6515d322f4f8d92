"""`SimClock`: the loop's time, as one process reads it from a wall clock that is wrong."""

import asyncio

from lakebed.env.clock import SECOND, Instant
from lakebed.testing.simulation.loop import SimLoop

# Any day will do; that it is far from 0 lets clocks be wrong by hours.
EPOCH = 1_700_000_000 * SECOND


class SimClock:
    """A `Clock` that is `skew_seconds` ahead of the world's."""

    def __init__(self, loop: SimLoop, *, skew_seconds: float = 0.0) -> None:
        self._loop = loop
        self.skew_seconds = skew_seconds
        self._set_at = float("-inf")
        self._latest_before = Instant(0)
        self._asleep_seconds = 0.0

    def set(self, skew_seconds: float) -> None:
        """Be so far ahead from now on: clocks are set, and databases fail over to machines with other ones."""
        self._latest_before = self.latest()
        self.skew_seconds = skew_seconds
        self._set_at = self._loop.time()

    def has_run_for(self, seconds: float) -> bool:
        """Return whether nobody has set it for so long."""
        return self._loop.time() - self._set_at > seconds

    def now(self) -> Instant:
        return Instant(EPOCH + round((self._loop.time() + self.skew_seconds) * SECOND))

    def latest(self) -> Instant:
        """Return the latest time that anyone can have read here: who acts on it may do so after it was set back."""
        return max(self._latest_before, self.now())

    def suspend(self, seconds: float) -> None:
        """Its machine sleeps for so long, and nobody in it will know how long that was but by the wall clock."""
        self._asleep_seconds += seconds

    def monotonic(self) -> float:
        return self._loop.time() - self._asleep_seconds

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
