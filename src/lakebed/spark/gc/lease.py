"""`Lease`: the right to go on with a run, kept alive beside whatever the run is doing.

Nothing is decided by this machine's clock: whether the lease still holds is the server's to
say, and is asked before every step that changes something. The heartbeat only keeps others
from taking it during a long step.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from lakebed.env.clock import Clock, Instant
from lakebed.errors import ErrorKind, FencedError, LakebedError, UnavailableError
from lakebed.spark.gc.ports import Server, Started

# Renewals in the life of a lease: two may get lost.
_RENEWALS = 3


class Lease:
    """A lease that was taken."""

    def __init__(self, server: Server, started: Started, clock: Clock) -> None:
        self._server = server
        self._clock = clock
        self._lost = False
        self.started = started
        self.counts: dict[str, int] = {}
        """What the run has done, for the server's record of it."""

    async def check(self) -> Instant:
        """Return engine time if the run may go on.

        Raises:
            FencedError: it lost the lease.
        """
        if self._lost:
            raise FencedError(
                ErrorKind.LEASE_LOST,
                f"run {self.started.run} lost its lease while it worked, and must not go on: run again",
            )
        return await self._server.renew(self.started)

    async def beat(self) -> None:
        """Renew the lease until cancelled, or until it is lost."""
        while not self._lost:
            await self._clock.sleep(self.started.lease_seconds / _RENEWALS)
            try:
                await self._server.renew(self.started)
            except UnavailableError:
                continue  # The next one may get through; until then nobody else is worse off.
            except LakebedError:
                self._lost = True


@asynccontextmanager
async def held(server: Server, started: Started, clock: Clock) -> AsyncIterator[Lease]:
    """Keep a lease alive inside the block, and give it back at its end, saying how it went."""
    lease = Lease(server, started, clock)
    heartbeat = asyncio.create_task(lease.beat())
    outcome = "failed"
    try:
        yield lease
        outcome = "done"
    finally:
        heartbeat.cancel()
        with suppress(asyncio.CancelledError):
            await heartbeat
        # A lease that cannot be given back runs out by itself; why the block ended is what matters.
        with suppress(LakebedError):
            await server.end(started, outcome, lease.counts)
