"""A play about one repository: everything that clients do to its branches."""

import asyncio
from collections.abc import Sequence
from functools import partial

from lakebed.model.ids import BranchName, RepoName
from lakebed.testing.simulation.chance import Chance
from lakebed.testing.simulation.clients import WORK, Client, Lake
from lakebed.testing.simulation.process import SimProcess
from lakebed.testing.simulation.rest import check_lake, check_no_leaks, clean_up
from lakebed.testing.simulation.stage import Conditions, Stage
from lakebed.testing.simulation.world import World


async def play_lake(
    world: World,
    conditions: Conditions,
    *,
    work: Sequence[tuple[str, float]],
    branches: tuple[str, ...] = ("main", "dev"),
    conditional: float = 0.35,
    tidy: float = 0.6,
) -> None:
    """Play it. `work` says how often each kind of call is made; for the rest see `Lake`."""
    stage = Stage(world, conditions)
    lake = await open_lake(world, stage.processes[0], "lake", branches)
    lake.conditional, lake.tidy = conditional, tidy

    async def act(process: SimProcess, chance: Chance) -> None:
        await WORK[chance.weighted(work)](Client(lake, process, chance))

    await stage.play(act)
    await stage.settle(partial(look_at, world, lake))


async def open_lake(world: World, process: SimProcess, name: str, branches: tuple[str, ...]) -> Lake:
    """Return a new repository with these empty branches."""
    repo = await process.engine.repositories.create(
        RepoName(name), f"mem://{name}", default_branch=BranchName(branches[0])
    )
    head = world.truth.timeline(repo.partition, branches[0]).last.commit_id
    assert head is not None
    for branch in branches[1:]:
        await process.engine.parts.branches.create(repo, BranchName(branch), head)
    return Lake(world, repo, branches)


async def let_work(lake: Lake, process: SimProcess, chance: Chance, work: str, *, times: int = 1) -> None:
    """Let a client of a process do something so many times, and return when it has."""
    done = asyncio.Event()

    async def run() -> None:
        for _ in range(times):
            await WORK[work](Client(lake, process, chance))
        done.set()

    process.spawn(run())
    await done.wait()


async def look_at(world: World, lake: Lake, process: SimProcess) -> None:
    """See that everything is as it should be, and that nothing is left over."""
    await check_lake(world, lake, process)
    await clean_up(world, [lake], process)
    check_no_leaks(world)
