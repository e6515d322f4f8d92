"""A play about one moment of a mark: whenever a collector comes to it, a crowd does what must not get lost there.

Before each mark everybody works in peace, and waits until what was committed is referred to by commits only.
"""

import asyncio
from collections.abc import Sequence
from functools import partial

from lakebed.auth.caller import SYSTEM
from lakebed.catalog.settings import Settings
from lakebed.limits import GRACE_SECONDS
from lakebed.model.gc_rules import GcRules
from lakebed.testing.simulation.chance import Chance
from lakebed.testing.simulation.gc_clients import GC_WORK, CollectedLake, GcClient
from lakebed.testing.simulation.gc_job import GC_PART
from lakebed.testing.simulation.gc_laws import GcLaws
from lakebed.testing.simulation.gc_play import look
from lakebed.testing.simulation.gc_watch import GcWatch
from lakebed.testing.simulation.lake_play import open_lake
from lakebed.testing.simulation.process import SimProcess
from lakebed.testing.simulation.stage import Conditions, Stage
from lakebed.testing.simulation.world import World

_ROUNDS = 5
_CROWD = 6
# In peace, before each mark.
_WORKS = 12
# Within which the crowd comes: about as long as a slow collector takes for what follows the moment.
_RUSH_SECONDS = 6.0


async def play_gc_race(
    world: World,
    *,
    moment: tuple[str, str],
    acts: Sequence[str],
    work: Sequence[tuple[str, float]],
    rules: GcRules | None = None,
    branches: tuple[str, ...] = ("main", "dev", "exp"),
) -> None:
    """Play it: `work` in peace, `acts` at the moment."""
    stage = Stage(world, Conditions(clients=0, processes=4, works=False, cleaning_seconds=300.0))
    collector, *hosts = stage.processes
    opened = await open_lake(world, hosts[0], "lake", branches)
    lake = CollectedLake(
        world, opened.repo, branches, conditional=0.0, tidy=0.9, servers=lambda: [collector], link_seconds=0.0
    )
    lake.watch = GcWatch(world, lake.repo)
    if rules is not None:
        await Settings(hosts[0].engine, SYSTEM).set_gc_rules(lake.repo.name, rules)
    laws = GcLaws(world, lake.repo, link_seconds=lake.link_seconds)
    world.network.sluggish = frozenset({GC_PART})
    chance = world.chance.fork("race")
    crowd: list[asyncio.Task[None]] = []

    async def act(kind: str, host: SimProcess, drawn: Chance) -> None:
        await GC_WORK[kind](GcClient(lake, host, drawn))

    async def come(host: SimProcess, drawn: Chance) -> None:
        await world.sleep(drawn.between(0.0, _RUSH_SECONDS))
        await act(drawn.pick(acts), host, drawn)

    def ambush(protocol: str, step: str, _name: str) -> None:
        if (protocol, step) == moment:
            world.met["everybody came"] += 1
            for number in range(_CROWD):
                host = hosts[number % len(hosts)]
                crowd.append(host.spawn(come(host, chance.fork(f"{number} {world.loop.time()}"))))

    async def collect() -> None:
        await GcClient(lake, collector, chance).mark_only(clean=chance.happens(0.6))

    for _ in range(_ROUNDS):
        for _ in range(_WORKS):
            host = chance.pick(hosts)
            await host.spawn(act(chance.weighted(work), host, chance))
        # Mostly long enough for the layers of what was committed to be gone.
        await world.sleep(chance.between(0.5, 3.0) * GRACE_SECONDS)
        world.steps.ambush = ambush
        await collector.spawn(collect())
        world.steps.ambush = None
        await asyncio.gather(*crowd)
        crowd.clear()
    await stage.settle(partial(look, world, lake, laws))
