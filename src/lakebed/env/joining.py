"""Waiting for company: many small writes that end in one sync.

A write that does not give up the event loop while the disk works would be a batch of
one, for nobody could join it meanwhile. So a batch is closed only when the loop has
nothing else to do that might join it. Alone, a writer waits for two idle turns of the
loop, some microseconds.
"""

import asyncio
from collections.abc import Callable

_QUIET_TURNS = 2
# However many come, the first in line is not kept for ever.
_TURNS_MAX = 50


async def let_join(waiting: Callable[[], int]) -> None:
    """Return when nobody new has come for a moment; `waiting` tells how many there are."""
    seen, quiet = waiting(), 0
    for _ in range(_TURNS_MAX):
        await asyncio.sleep(0)
        now = waiting()
        quiet = quiet + 1 if now == seen else 0
        if quiet == _QUIET_TURNS:
            return
        seen = now
