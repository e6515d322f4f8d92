"""A play about one race: HEAD moves on a clean branch, slowly, while somebody writes and a worker folds that into a tree.

Left to chance it is rare, since a branch is seldom clean. Here it is played again and again, and chance decides only
who comes first.
"""

import asyncio
from functools import partial

from lakebed.limits import LEASE_SECONDS
from lakebed.testing.simulation.lake_play import let_work, look_at, open_lake
from lakebed.testing.simulation.loop import WORLD
from lakebed.testing.simulation.stage import Conditions, Stage
from lakebed.testing.simulation.world import World

_ROUNDS = 8


async def play_head_race(world: World) -> None:
    """Play it."""
    # Only one of them compacts: nobody else takes care of what it has begun.
    stage = Stage(world, Conditions(clients=0, processes=1))
    mover, writer = world.start_process(), world.start_process()
    lake = await open_lake(world, writer, "lake", ("main",))
    lake.tidy = 0.0
    chance = world.chance.fork("race")

    def ambush(protocol: str, step: str, name: str) -> None:
        """Let whoever has come to the step before the last one stand still there; mostly HEAD goes on first."""
        longest = {("commit", "seal"): LEASE_SECONDS / 3, ("worker", "upload all"): LEASE_SECONDS}
        slow = next((each for each in world.processes if each.name == name), None)
        if (protocol, step) in longest and slow is not None:
            seconds = chance.between(1.0, longest[protocol, step])
            world.loop.call_later(0.0, partial(world.pause, slow, seconds, is_asleep=False), context=WORLD)

    # Two commits to go to and fro between.
    for _ in range(2):
        await let_work(lake, writer, chance, "write")
        await let_work(lake, writer, chance, "commit")
    for _ in range(_ROUNDS):
        # Not a reset: that would leave an empty layer, which goes with the old HEAD, and takes the job along.
        await let_work(lake, writer, chance, "commit")
        world.steps.ambush = ambush
        moving = asyncio.ensure_future(let_work(lake, mover, chance, "hard_reset"))
        await world.sleep(chance.between(0, 1))
        await let_work(lake, writer, chance, "write")
        await moving
        await world.sleep(2 * LEASE_SECONDS)
        world.steps.ambush = None
    await stage.settle(partial(look_at, world, lake))
