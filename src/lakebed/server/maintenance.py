"""What is done in the background: space given back, and things half-way finished.

Nothing else depends on it, every step can be done twice, and any number of processes
may run it at once.
"""

from lakebed.catalog.link_tokens import LinkTokens
from lakebed.env.clock import Clock
from lakebed.env.ids import IdSource
from lakebed.errors import LakebedError
from lakebed.model.repository import Repository
from lakebed.server.wiring import Wired
from lakebed.telemetry.log import get_logger

log = get_logger(__name__)

# Often enough that branch records stay short at twenty commits a second, rare enough to cost nothing.
INTERVAL_SECONDS = 10.0


class Maintenance:
    """Runs the cleaner and the sweeps."""

    def __init__(self, wired: Wired, *, clock: Clock, ids: IdSource) -> None:
        self._wired = wired
        self._clock = clock
        self._ids = ids

    async def run(self) -> None:
        """Work for ever, with a pause between two rounds."""
        while True:
            await self._clock.sleep(INTERVAL_SECONDS * self._ids.jitter())
            try:
                await self.once()
            except LakebedError as error:
                log.warning("maintenance_failed", kind=error.kind, error=str(error))

    async def once(self) -> None:
        """Do everything that is due."""
        await self._wired.cleaner.clean_once()
        async for found in self._wired.engine.repositories.scan():
            if isinstance(found.value, Repository):
                await self._wired.engine.stashes.sweep(found.value)
                await self._wired.sessions.tasks.sweep(found.value)
                await self._wired.catalog.part_uploads.sweep(found.value)
                await LinkTokens(self._wired.engine).sweep(found.value)
