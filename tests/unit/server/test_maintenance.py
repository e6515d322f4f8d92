"""Maintenance: space comes back without anyone asking."""

import asyncio
from dataclasses import dataclass

import pytest

from lakebed.env.clock import Instant, after
from lakebed.env.ids import SeededIds
from lakebed.errors import InvalidInputError
from lakebed.limits import (
    COPY_LIFETIME_SECONDS,
    GRACE_SECONDS,
    MAINTENANCE_PASS_SECONDS,
    TASK_LIFETIME_SECONDS,
)
from lakebed.model.lifetimes import Lifetimes
from lakebed.refs.agreement import Agreement
from lakebed.server.maintenance import Maintenance
from lakebed.testing.lake import open_wired


@dataclass
class StoppedClock:
    at: Instant = Instant(1_800_000_000_000_000)

    def now(self) -> Instant:
        return self.at

    def monotonic(self) -> float:
        return self.at / 1e6

    async def sleep(self, seconds: float) -> None:
        await asyncio.Event().wait()  # It stands still.


async def test_a_round_frees_retired_layers_and_old_tasks_and_popped_stashes() -> None:
    clock = StoppedClock()
    async with open_wired(clock=clock) as (wired, kv):
        catalog = wired.catalog
        await catalog.repositories.create("lake", "mem://lake")
        await catalog.objects.upload("lake", "main", "a", b"1")
        token = (await catalog.branches.get("lake", "main")).staging_token
        assert token is not None
        stash = await catalog.stashes.create("lake", "main")
        await catalog.stashes.pop("lake", stash.id)
        task = await catalog.dumps.start_dump("lake")
        await wired.sessions.tasks.drain()

        maintenance = Maintenance(wired, clock=clock, ids=SeededIds(1))
        await maintenance.once()
        assert await kv.get(token, b"open") is not None, "a grace is a grace"

        clock.at = after(clock.at, max(GRACE_SECONDS, TASK_LIFETIME_SECONDS) + 1)
        for _ in range(2):
            await maintenance.once()
        repo = await wired.engine.repo("lake")
        left = [key async for page in kv.scan(repo.partition) for key in page.keys]
        assert not [key for key in left if key.startswith((b"tasks/", b"stashes/"))]
        assert await kv.get(token, b"open") is None
        assert task.kind == "dump"


async def test_a_longer_grace_keeps_what_the_usual_one_would_free() -> None:
    clock = StoppedClock()
    lifetimes = Lifetimes(grace_seconds=3 * GRACE_SECONDS)
    async with open_wired(clock=clock, lifetimes=lifetimes) as (wired, kv):
        catalog = wired.catalog
        repo = await catalog.repositories.create("lake", "mem://lake")
        await catalog.objects.upload("lake", "main", "a", b"1")
        token = (await catalog.branches.get("lake", "main")).staging_token
        assert token is not None
        await catalog.branches.reset("lake", "main")
        maintenance = Maintenance(wired, clock=clock, ids=SeededIds(1))
        for seconds, kept in ((2 * GRACE_SECONDS, True), (2 * GRACE_SECONDS, False)):
            clock.at = after(clock.at, seconds)
            for _ in range(2):
                await maintenance.once()
            assert (await kv.get(token, b"open") is not None) == kept
        await catalog.repositories.delete("lake")
        clock.at = after(clock.at, 2 * GRACE_SECONDS)
        await maintenance.once()
        assert [page async for page in kv.scan(repo.partition)], "the deleted repository has its grace"


async def test_a_process_with_other_lifetimes_than_the_installation_frees_nothing() -> None:
    clock = StoppedClock()
    shared = {"grace_seconds": GRACE_SECONDS}
    async with open_wired(clock=clock, shared=shared) as (wired, kv):
        await wired.engine.agreement.join()
        await wired.catalog.repositories.create("lake", "mem://lake")
        await wired.catalog.repositories.delete("lake")
        other = Agreement(kv, {"grace_seconds": 2 * GRACE_SECONDS}, clock=clock, ids=SeededIds(1))
        await other.replace()
        clock.at = after(clock.at, GRACE_SECONDS + 1)

        with pytest.raises(InvalidInputError, match="grace_seconds is 900 here and 1800"):
            await Maintenance(wired, clock=clock, ids=SeededIds(1)).once()

        assert [page async for page in kv.scan("cleanup")], (
            "and a server with a longer grace may still read it"
        )


async def test_notes_of_copies_are_forgotten_and_looked_for_once_an_hour() -> None:
    clock = StoppedClock()
    async with open_wired(clock=clock) as (wired, kv):
        catalog = wired.catalog
        repo = await catalog.repositories.create("lake", "mem://lake")
        await catalog.objects.upload("lake", "main", "a", b"1")
        maintenance = Maintenance(wired, clock=clock, ids=SeededIds(1))

        async def notes() -> int:
            keys = [key async for page in kv.scan(repo.partition) for key in page.keys]
            return sum(key.startswith(b"copies/") for key in keys)

        await catalog.objects.copy("lake", "main", "b", source_path="a", shallow=True)
        clock.at = after(clock.at, COPY_LIFETIME_SECONDS)
        await maintenance.once()
        assert await notes() == 1
        clock.at = after(clock.at, GRACE_SECONDS + 1)
        await maintenance.once()
        assert await notes() == 1, "not yet looked for again"
        clock.at = after(clock.at, MAINTENANCE_PASS_SECONDS)
        await maintenance.once()
        assert await notes() == 0
