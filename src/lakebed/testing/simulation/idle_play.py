"""A play about one race: the cleaner has nothing left to do for a branch, and at that very moment somebody uses it again.

The cleaner is about to remove the branch's entry from the `todo` index, and whoever changes the branch puts a new one.
"""

import asyncio
from functools import partial

from lakebed.limits import GRACE_SECONDS
from lakebed.testing.simulation.lake_play import let_work, look_at, open_lake
from lakebed.testing.simulation.network import CALM, Weather
from lakebed.testing.simulation.stage import Conditions, Stage
from lakebed.testing.simulation.world import World

_ROUNDS = 6
_WRITERS = 3


async def play_idle(world: World) -> None:
    """Play it."""
    # Only one of them cleans.
    stage = Stage(world, Conditions(clients=0, processes=1, cleaning_seconds=60.0))
    writers = [world.start_process() for _ in range(_WRITERS)]
    lake = await open_lake(world, writers[0], "lake", ("main",))
    lake.conditional = 0.0
    chance = world.chance.fork("idle")
    idle = asyncio.Event()

    def ambush(protocol: str, moment: str, _name: str) -> None:
        if (protocol, moment) == ("cleaner", "idle"):
            world.met["used again when idle"] += 1
            idle.set()

    for _ in range(_ROUNDS):
        for work in ("write", "commit", "write"):
            await let_work(lake, writers[0], chance, work)
        await world.sleep(GRACE_SECONDS)
        idle.clear()
        world.steps.ambush = ambush
        world.network.weather = Weather(slow=0.25)
        await idle.wait()
        await asyncio.gather(*(let_work(lake, writer, chance, "reset_branch") for writer in writers))
        world.steps.ambush = None
        world.network.weather = CALM
    await stage.settle(partial(look_at, world, lake))
