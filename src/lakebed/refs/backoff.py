"""How long the loser of a swap waits before it tries again."""

from lakebed.env.clock import Clock
from lakebed.env.ids import IdSource
from lakebed.limits import BACKOFF_MAX_SECONDS, BACKOFF_SECONDS

_DOUBLINGS_MAX = 16


async def back_off(attempt: int, *, clock: Clock, ids: IdSource) -> None:
    """Wait before try number `attempt` + 1 (the first is 0): twice as long each time, spread, and bounded."""
    seconds = BACKOFF_SECONDS * 2 ** min(attempt, _DOUBLINGS_MAX)
    await clock.sleep(min(seconds, BACKOFF_MAX_SECONDS) * ids.jitter())
