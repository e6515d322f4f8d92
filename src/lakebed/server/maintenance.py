"""What is done in the background: space given back, and things half-way finished.

Nothing else depends on it, every step can be done twice, and any number of processes
may run it at once.
"""

from lakebed.catalog.link_tokens import LinkTokens
from lakebed.catalog.shared_addresses import sweep_copies
from lakebed.env.clock import Clock
from lakebed.env.ids import IdSource
from lakebed.errors import LakebedError
from lakebed.limits import MAINTENANCE_SECONDS, NAMESPACE_ROUND_SECONDS
from lakebed.model.ids import RepoUid
from lakebed.model.repository import Repository
from lakebed.server.wiring import Wired
from lakebed.telemetry.log import get_logger

log = get_logger(__name__)

COPIES_SECONDS = 3600.0


class Maintenance:
    """Runs the cleaner and the sweeps."""

    def __init__(
        self, wired: Wired, *, clock: Clock, ids: IdSource, seconds: float = MAINTENANCE_SECONDS
    ) -> None:
        self._wired = wired
        self._clock = clock
        self._ids = ids
        self._seconds = seconds
        self._copies_swept: dict[RepoUid, float] = {}

    async def run(self) -> None:
        """Work for ever, with a pause between two rounds."""
        while True:
            await self._clock.sleep(self._seconds * self._ids.jitter())
            try:
                await self.once()
            except LakebedError as error:
                log.warning("maintenance_failed", kind=error.kind, error=str(error))

    async def once(self) -> None:
        """Do everything that is due; nothing if the installation has agreed on other lifetimes than this process has."""
        await self._wired.engine.agreement.require()
        await self._wired.cleaner.clean_once()
        await self._wired.namespace_watch.round(
            await self._wired.engine.parts.kv.now(), seconds=NAMESPACE_ROUND_SECONDS
        )
        async for found in self._wired.engine.repositories.scan():
            if isinstance(found.value, Repository):
                await self._wired.engine.stashes.sweep(found.value)
                await self._wired.sessions.tasks.sweep(found.value)
                await self._wired.catalog.part_uploads.sweep(found.value)
                await LinkTokens(self._wired.engine).sweep(found.value)
                await self._sweep_copies(found.value)

    async def _sweep_copies(self, repo: Repository) -> None:
        """Forget old notes of copies, seldom: all of them have to be looked at."""
        now = self._clock.monotonic()
        if now - self._copies_swept.get(repo.uid, -COPIES_SECONDS) >= COPIES_SECONDS:
            await sweep_copies(self._wired.engine, repo)
            self._copies_swept[repo.uid] = now
