"""What a server does for the namespaces of its repositories, in a pass over all of them every minute.

    1. owners   list them: if another installation has adopted the namespace, the repository becomes read-only
    2. dump     refs that have moved, every few minutes (`automatic_dumps`)

A pass costs one small listing and one read of the refs for each live repository. A round is bounded in time and in
repositories, and goes on where the last one stopped, so with very many repositories a pass takes longer than a minute; no safety depends on it.
One repository that fails is logged and holds up no other.
"""

import asyncio

from lakebed.env.clock import Clock, Instant, after
from lakebed.errors import LakebedError
from lakebed.limits import (
    MAINTENANCE_PAGE_ITEMS,
    NAMESPACE_STEP_SECONDS,
    NAMESPACE_VISITS,
    NAMESPACE_WATCH_SECONDS,
)
from lakebed.model.repository import Repository
from lakebed.refs.automatic_dumps import AutomaticDumps
from lakebed.refs.owners import OpenStore, newest_generation, read_owner
from lakebed.refs.repositories import Repositories
from lakebed.telemetry.log import get_logger

log = get_logger(__name__)


class NamespaceWatch:
    """Looks after the namespaces of all repositories. Any number of processes may run it."""

    def __init__(
        self,
        repositories: Repositories,
        dumps: AutomaticDumps,
        *,
        open_store: OpenStore,
        clock: Clock,
        seconds: float = NAMESPACE_WATCH_SECONDS,
    ) -> None:
        self._seconds = seconds
        self._repositories = repositories
        self._dumps = dumps
        self._open_store = open_store
        self._clock = clock
        self._began: Instant | None = None
        self._cursor = ""

    async def round(self, now: Instant, *, seconds: float) -> int:
        """Go on with the pass for so long, and begin another one when it is time; return how many were visited."""
        if not self._cursor:
            if self._began is not None and self._began <= now < after(self._began, self._seconds):
                return 0
            self._began = now
        ends = self._clock.monotonic() + seconds
        visited = 0
        async for found in self._repositories.scan(after=self._cursor, page_items_max=MAINTENANCE_PAGE_ITEMS):
            if self._clock.monotonic() > ends or visited >= NAMESPACE_VISITS:
                return visited
            self._cursor = found.value.name
            if isinstance(found.value, Repository) and not found.value.taken_over_by:
                await self._visit_alone(found.value, now)
                visited += 1
        self._cursor = ""
        return visited

    async def visit(self, repo: Repository, now: Instant) -> None:
        """Do what is due for one repository."""
        if repo.taken_over_by:
            return
        store = await self._open_store(repo.namespace)
        newest = await newest_generation(store)
        if newest > repo.generation:
            by = str(await read_owner(store, newest))
            log.error("repository_taken_over", repository=repo.name, namespace=repo.namespace, by=by)
            await self._repositories.fence(repo, by)
            return
        await self._dumps.run_due(repo, now)

    async def _visit_alone(self, repo: Repository, now: Instant) -> None:
        try:
            async with asyncio.timeout(NAMESPACE_STEP_SECONDS):
                await self.visit(repo, now)
        except (LakebedError, TimeoutError) as error:
            log.warning("namespace_watch_failed", repository=repo.name, error=str(error) or "timed out")
