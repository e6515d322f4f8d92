"""A play about one race: a worker wants to install, and at that very moment everybody appends to the branch.

Each append makes the record that the worker has read an old one. It must get through all the same, and not only when
everybody has gone.
"""

import asyncio
from functools import partial

from lakebed.testing.simulation.lake_play import let_work, look_at, open_lake
from lakebed.testing.simulation.stage import Conditions, Stage
from lakebed.testing.simulation.world import World

_ROUNDS = 4
_WRITERS = 8
# By each of them in a storm: together as many as a branch has layers at most, or they would go on as rows.
_WRITES = 3


async def play_storm(world: World) -> None:
    """Play it."""
    stage = Stage(world, Conditions(clients=0, processes=1))
    writers = [world.start_process() for _ in range(_WRITERS)]
    lake = await open_lake(world, writers[0], "lake", ("main",))
    lake.conditional = 0.0
    chance = world.chance.fork("storm")
    storm = asyncio.Event()

    def ambush(protocol: str, step: str, _name: str) -> None:
        if (protocol, step) == ("worker", "upload all"):
            storm.set()

    world.steps.ambush = ambush
    for _ in range(_ROUNDS):
        storm.clear()
        for writer in writers[:3]:
            await let_work(lake, writer, chance, "write")
        await storm.wait()
        await asyncio.gather(*(let_work(lake, writer, chance, "write", times=_WRITES) for writer in writers))
        await world.sleep(chance.between(0, 20))
        await let_work(lake, writers[0], chance, "commit")
    world.steps.ambush = None
    await stage.settle(partial(look_at, world, lake))
