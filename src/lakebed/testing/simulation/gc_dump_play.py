"""A play about a bare repository into which two dumps are restored, one after the other, while garbage is collected.

What only the second dump names is garbage until then, and may have been marked twice. Nobody sweeps before it is back:
whatever was deleted before that is gone, and no dump brings it back. One sweep begins before, and stands still with its
lease until long after: it must find out that it has lost that.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Any

from lakebed.auth.caller import SYSTEM
from lakebed.catalog.dumps import Dumps
from lakebed.catalog.tasks import Tasks
from lakebed.errors import ErrorKind
from lakebed.limits import GC_CLOCK_SLACK_SECONDS, GRACE_SECONDS, SLICE_SECONDS
from lakebed.model.ids import BranchName, RepoName, TagName
from lakebed.objects.drivers.memory import MemoryBucket
from lakebed.refs.dump import RefsDump
from lakebed.spark.gc.decide import Options
from lakebed.spark.gc.protocol import mark, sweep
from lakebed.testing.simulation.chance import Chance
from lakebed.testing.simulation.clock import SimClock
from lakebed.testing.simulation.gc_clients import CollectedLake
from lakebed.testing.simulation.gc_job import GC_PART, Line, SimServer, open_job
from lakebed.testing.simulation.gc_laws import GcLaws
from lakebed.testing.simulation.gc_play import look
from lakebed.testing.simulation.gc_watch import GcWatch
from lakebed.testing.simulation.history import Op, Outcome
from lakebed.testing.simulation.lake_play import let_work, open_lake
from lakebed.testing.simulation.process import SimProcess
from lakebed.testing.simulation.record_laws import LawBrokenError
from lakebed.testing.simulation.stage import Conditions, Stage
from lakebed.testing.simulation.world import World

_ALLOWED = (None, ErrorKind.LEASE_LOST, ErrorKind.GC_RUN_NOT_FOUND, ErrorKind.GC_RUNNING)
"""A restore takes the lease away, and lets no mark count."""
# Longer than it takes until the second dump is restored.
_HELD_SECONDS = 14 * GRACE_SECONDS
_OWNER_PREFIX = "_lakebed/owner-"


async def play_gc_dumps(world: World, conditions: Conditions) -> None:
    """Play it."""
    stage = Stage(world, conditions)
    chance = world.chance.fork("dumps")
    first, second = await _dump_twice(world, stage.processes[0], chance)
    objects = world.buckets["mem://lake"].objects
    copied = {key: value for key, value in objects.items() if not key.startswith(_OWNER_PREFIX)}
    world.buckets["mem://back"] = MemoryBucket(objects=copied)
    repo = await stage.processes[0].engine.repositories.create(
        RepoName("back"), "mem://back", default_branch=BranchName("main"), bare=True
    )
    # No addresses are given out here, so no age is too short.
    lake = CollectedLake(world, repo, ("main", "dev"), servers=lambda: stage.processes[:2], link_seconds=0.0)
    await world.sleep(2 * SLICE_SECONDS + GC_CLOCK_SLACK_SECONDS)
    laws = GcLaws(world, repo, link_seconds=lake.link_seconds)
    lake.watch = GcWatch(world, repo)
    restorer, collector, sleeper = (_Actor(lake, process, chance) for process in stage.processes)
    await restorer.restore(first, laws)
    world.network.sluggish = frozenset({GC_PART})
    world.steps.ambush = partial(_hold, world, stage.processes[2])
    await asyncio.gather(
        _in(stage.processes[0], restorer.restore_some_time(second, laws)),
        _in(stage.processes[1], collector.mark_often()),
        _in(stage.processes[2], sleeper.sweep_some_time()),
    )
    world.steps.ambush = None
    await _in(stage.processes[1], collector.sweep_often())
    await stage.settle(partial(look, world, lake, laws))


async def _dump_twice(world: World, process: SimProcess, chance: Chance) -> tuple[RefsDump, RefsDump]:
    """Return a dump with a branch, and one with another branch and a tag beside it."""
    lake = await open_lake(world, process, "lake", ("main",))
    engine = process.engine
    for _ in range(3):
        await let_work(lake, process, chance, "write", times=3)
        await let_work(lake, process, chance, "commit")
    first = await engine.dumper.dump(lake.repo)
    head = world.truth.timeline(lake.partition, "main").last.commit_id
    assert head is not None
    await engine.parts.branches.create(lake.repo, BranchName("dev"), head)
    lake.branches = ("dev",)
    for _ in range(2):
        await let_work(lake, process, chance, "write", times=4)
        await let_work(lake, process, chance, "commit")
    newest = world.truth.timeline(lake.partition, "dev").last.commit_id
    assert newest is not None
    await engine.tags.create(lake.repo, TagName("v1"), newest)
    return first, await engine.dumper.dump(lake.repo)


def _hold(world: World, sleeper: SimProcess, protocol: str, step: str, name: str) -> None:
    """Let a process stand still that is about to sweep."""
    if (protocol, step, name) == ("gc sweep", "look", sleeper.name):
        world.pause(sleeper, _HELD_SECONDS, is_asleep=False)


async def _in(process: SimProcess, work: Coroutine[Any, Any, None]) -> None:
    """Let a process do something, and return when it has."""
    done = asyncio.Event()

    async def run() -> None:
        await work
        done.set()

    process.spawn(run())
    await done.wait()


class _Actor:
    """Somebody at one of the processes."""

    def __init__(self, lake: CollectedLake, process: SimProcess, chance: Chance) -> None:
        self._lake = lake
        self._world = lake.world
        self._process = process
        self._chance = chance.fork(process.name)

    async def restore_some_time(self, dump: RefsDump, laws: GcLaws) -> None:
        """Restore a dump while others collect."""
        gc, wanted = self._process.engine.gc, self._chance.happens(0.4)
        # Before the last mark, so that one is met, or perhaps after it.
        await self._world.sleep(self._chance.between(0.0, 4.0 if wanted else 10.0) * GRACE_SECONDS)
        for _ in range(2000 if wanted else 0):
            if (await gc.state(self._lake.repo)).lease is not None:
                break
            await self._world.sleep(self._chance.between(0.0, 5.0))
        state = await gc.state(self._lake.repo)
        if state.lease is not None:
            self._world.met["restored during a mark"] += 1
        elif state.marks:
            self._world.met["restored between two marks"] += 1
        await self.restore(dump, laws)

    async def restore(self, dump: RefsDump, laws: GcLaws) -> None:
        """Restore a dump."""
        engine = self._process.engine
        laws.restoring = True
        restore = Dumps(engine, SYSTEM, Tasks(engine.parts)).restore
        op = await self._ask("restore_dump", partial(restore, self._lake.repo.name, dump))
        laws.restoring = False
        if op.outcome is not Outcome.DONE:
            raise LawBrokenError(f"{op} in fair weather")

    async def mark_often(self) -> None:
        """Mark, so that what is found twice is confirmed, and delete nothing."""
        for _ in range(7):
            await self._collect(mark)
            await self._world.sleep(self._chance.between(0.6, 1.3) * GRACE_SECONDS)

    async def sweep_some_time(self) -> None:
        """Sweep what was confirmed: see `_hold`."""
        await self._world.sleep(self._chance.between(1.5, 4.0) * GRACE_SECONDS)
        await self._collect(sweep)

    async def sweep_often(self) -> None:
        """Delete what was confirmed, and go on collecting."""
        for _ in range(2):
            await self._collect(sweep)
            await self._collect(mark)
            await self._world.sleep(1.1 * GRACE_SECONDS)

    async def _collect(self, step: Callable[..., Awaitable[object]]) -> None:
        lake = self._lake
        clean = self._chance.happens(0.5)
        options = Options(min_age_seconds=0.0, grace_seconds=GRACE_SECONDS, clean=clean, allow_large=True)
        line = Line(
            loop=self._world.loop, chance=self._chance, servers=lake.servers, lost=0.0, met=self._world.met
        )
        server = SimServer(line, lake.repo, holder=self._process.name, link_seconds=lake.link_seconds)
        store = await self._process.engine.store_of(lake.repo)
        job = open_job(server, store, SimClock(self._world.loop))
        op = await self._ask("collect", lambda: step(job, options), min_age=0.0, clean=clean)
        assert lake.watch is not None
        lake.watch.over(op)
        if op.kind_of_error not in _ALLOWED:
            raise LawBrokenError(f"{op} in fair weather")

    async def _ask(self, kind: str, call: Callable[[], Awaitable[object]], **args: Any) -> Op:
        return await self._world.ask(self._process, kind, call, repo=self._lake.partition, **args)
