"""A clock for scans that take longer than the grace: time passes in leaps, and who sleeps wakes after each."""

from lakebed.env.clock import after
from tests.unit.compaction.shell import HandClock


class LeapClock(HandClock):
    """Time stands still until the test lets it leap."""

    async def leap(self, seconds: float, *, steps: int) -> None:
        """Let so many steps of so much time pass; who sleeps goes on after each."""
        for _ in range(steps):
            self.jump(seconds - 1)
            await self.advance(1)

    def jump(self, seconds: float) -> None:
        """Let time pass while this process stands still."""
        self._now = after(self._now, seconds)
