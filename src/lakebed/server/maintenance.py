"""What is done in the background: space given back, and things half-way finished.

Nothing else depends on it, every step can be done twice, and any number of processes may run it at once. One of them has the
turn (`maintenance_turn`), so that the others do not repeat its work. In a round, the process with the turn does

    1. what is due, by the `todo` index and the clean-up entries (`refs/cleaner.py`): nothing that is not due is read
    2. a part of the watch over namespaces (`refs/namespace_watch.py`)
    3. a part of a pass over all repositories, once an hour: what no index leads to. Once a day the pass reads every ref

A round is bounded in time, and goes on in the next one where it stopped. Each step in each repository has a time-out and
fails alone: storage that cannot be reached, or a record that cannot be read, holds up nothing else.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TypeAlias

from lakebed.catalog.link_tokens import LinkTokens
from lakebed.catalog.segment_calls import SegmentCalls
from lakebed.catalog.shared_addresses import sweep_copies
from lakebed.env.clock import Clock, Instant, after
from lakebed.env.ids import IdSource
from lakebed.format.records import decode_repository
from lakebed.limits import (
    MAINTENANCE_FULL_SECONDS,
    MAINTENANCE_PASS_SECONDS,
    MAINTENANCE_ROUND_SECONDS,
    MAINTENANCE_SECONDS,
    MAINTENANCE_STEP_SECONDS,
    MAINTENANCE_VISITS,
    NAMESPACE_ROUND_SECONDS,
)
from lakebed.model.maintenance import MaintenanceTurn
from lakebed.model.repository import Repository, RepositoryRecord
from lakebed.refs.cleaner import Cleaned
from lakebed.refs.keys import REPOS_PREFIX, REPOSITORIES_PARTITION
from lakebed.refs.outermost import logged
from lakebed.refs.scans import scan_records
from lakebed.refs.versioned import Versioned
from lakebed.server.maintenance_turn import TurnTaking
from lakebed.server.wiring import Wired

Sweep: TypeAlias = Callable[[Repository], Awaitable[int]]
"""Removes from one repository what is over; returns how much."""


class Maintenance:
    """Runs the cleaner and the sweeps."""

    def __init__(
        self, wired: Wired, *, clock: Clock, ids: IdSource, seconds: float = MAINTENANCE_SECONDS
    ) -> None:
        self._wired = wired
        self._kv = wired.engine.parts.kv
        self._clock = clock
        self._ids = ids
        self._seconds = seconds
        self._turns = TurnTaking(self._kv, ids=ids, round_seconds=seconds)
        self.sweeps: dict[str, Sweep] = {
            "segments": wired.cleaner.sweep_segments,
            "stashes": wired.engine.stashes.sweep,
            "tasks": wired.sessions.tasks.sweep,
            "uploads": wired.catalog.part_uploads.sweep,
            "links": LinkTokens(wired.engine).sweep,
            "segment calls": SegmentCalls(wired.engine).sweep,
            "copies": lambda repo: sweep_copies(wired.engine, repo),
        }

    async def run(self) -> None:
        """Work for ever, with a pause between two rounds."""
        try:
            while True:
                await self._clock.sleep(self._seconds * self._ids.jitter())
                async with logged("maintenance_failed"):
                    await self.once()
        finally:
            await self._turns.release()

    async def once(self) -> bool:
        """Do one round, if this process has the turn; return whether it has.

        Raises:
            InvalidInputError: the installation has agreed on other lifetimes than this process has: it may free nothing.
        """
        await self._wired.engine.agreement.require()
        now = await self._kv.now()
        turn = await self._turns.take(now)
        if turn is None:
            return False
        async with logged("maintenance_failed", step="round"):
            await self._wired.cleaner.round(now, seconds=MAINTENANCE_ROUND_SECONDS)
        async with logged("maintenance_failed", step="namespaces"):
            await self._wired.namespace_watch.round(now, seconds=NAMESPACE_ROUND_SECONDS)
        await self._go_on(turn, now)
        return True

    async def _go_on(self, turn: MaintenanceTurn, now: Instant) -> None:
        """Visit the next repositories of the pass, and begin another pass when it is time."""
        if not turn.cursor:
            if now < after(turn.pass_began, MAINTENANCE_PASS_SECONDS):
                return
            full = now >= after(turn.full_began, MAINTENANCE_FULL_SECONDS)
            turn = replace(turn, pass_began=now, full_began=now if full else turn.full_began)
        ends = self._clock.monotonic() + MAINTENANCE_ROUND_SECONDS
        found = await self._next_repositories(turn.cursor)
        visited = ""
        for each in found:
            await self._visit(each, now, full=turn.full_began == turn.pass_began)
            visited = each.value.name
            if self._clock.monotonic() > ends:
                break
        is_over = len(found) < MAINTENANCE_VISITS and (not found or visited == found[-1].value.name)
        await self._turns.move(replace(turn, cursor="" if is_over else visited))

    async def _next_repositories(self, cursor: str) -> list[Versioned[RepositoryRecord]]:
        async for items in scan_records(
            self._kv, REPOSITORIES_PARTITION, REPOS_PREFIX, after=cursor, page_items_max=MAINTENANCE_VISITS
        ):
            return [Versioned(decode_repository(item.value), item.version) for item in items]
        return []

    async def _visit(self, found: Versioned[RepositoryRecord], now: Instant, *, full: bool) -> None:
        await self._wired.cleaner.visit(found, now, Cleaned(), full=full)
        if not isinstance(found.value, Repository):
            return
        for name, sweep in self.sweeps.items():
            async with (
                logged("maintenance_failed", step=name, repository=found.value.name),
                asyncio.timeout(MAINTENANCE_STEP_SECONDS),
            ):
                await sweep(found.value)
