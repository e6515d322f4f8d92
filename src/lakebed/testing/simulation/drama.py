"""`Drama`: a repository, its clients, and what befalls the processes that serve them."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from lakebed.limits import GRACE_SECONDS, PENDING_TIMEOUT_SECONDS
from lakebed.model.ids import BranchName
from lakebed.testing.simulation.chance import Chance
from lakebed.testing.simulation.clients import WORK, Client, Lake
from lakebed.testing.simulation.network import CALM, ROUGH, Weather
from lakebed.testing.simulation.process import SimProcess
from lakebed.testing.simulation.rest import check_rest
from lakebed.testing.simulation.world import World

# Processes are left alone after so many blows, or a client that thinks for long would never get to its last call.
_BLOWS_MAX = 15


@dataclass(frozen=True, slots=True, kw_only=True)
class Plot:
    """What happens in a drama."""

    work: Sequence[tuple[str, float]]
    """Kinds of calls, and how often each is made."""
    clients: int = 6
    calls: int = 25
    """By each client."""
    processes: int = 2
    branches: tuple[str, ...] = ("main", "dev")
    weather: Weather = ROUGH
    kills: float = 0.0
    """How often a process is killed, in a minute."""
    pauses: float = 0.0
    """How often a process is paused, in a minute."""
    hurry: float = 1.0
    """Of how short are the pauses between a client's calls; a larger number crowds them together."""


class Drama:
    """Plays a plot to its end, and looks at what is left."""

    def __init__(self, world: World, plot: Plot) -> None:
        self._world = world
        self._plot = plot
        self._chance = world.chance.fork("drama")
        self._left: dict[int, int] = {}
        """Clients that have calls to make yet."""
        self._processes: list[SimProcess] = []
        self._blows = 0

    async def play(self) -> None:
        world, plot = self._world, self._plot
        lake = await self._open()
        world.network.weather = plot.weather
        self._left = dict.fromkeys(range(plot.clients), plot.calls)
        for number in self._left:
            self._start_client(lake, number, self._processes[number % plot.processes])
        while self._left:
            await world.sleep(1.0)
            await self._interfere(lake)
        world.network.weather = CALM
        await self._settle(lake)

    async def _open(self) -> Lake:
        world, plot = self._world, self._plot
        self._processes = [world.start_process() for _ in range(plot.processes)]
        first = self._processes[0]
        repo = await world.create_repository(first, "lake")
        lake = Lake(world, repo, plot.branches)
        head = world.truth.timeline(repo.partition, "main").last.commit_id
        assert head is not None
        for branch in plot.branches[1:]:
            await first.engine.parts.branches.create(repo, BranchName(branch), head)
        return lake

    def _start_client(self, lake: Lake, number: int, process: SimProcess) -> None:
        process.spawn(self._be_client(lake, number, process))

    async def _be_client(self, lake: Lake, number: int, process: SimProcess) -> None:
        chance = self._chance.fork(f"client {number} {self._left[number]}")
        client = Client(lake, process, chance)
        while self._left[number]:
            await self._world.sleep(self._think(chance))
            self._left[number] -= 1
            await WORK[chance.weighted(self._plot.work)](client)
        del self._left[number]

    def _think(self, chance: Chance) -> float:
        longest = chance.weighted([(0.005, 6), (0.1, 3), (2.0, 1), (30.0, 0.3), (600.0, 0.03)])
        return chance.between(0, longest) / self._plot.hurry

    async def _interfere(self, lake: Lake) -> None:
        chance, plot = self._chance, self._plot
        if self._blows == _BLOWS_MAX:
            return
        if chance.happens(plot.kills / 60):
            self._blows += 1
            index = chance.below(len(self._processes))
            self._processes[index].kill()
            self._world.met["process killed"] += 1
            self._world.trace.note(f"{self._processes[index].name} dies")
            await self._world.sleep(chance.between(0, 3))
            self._processes[index] = self._world.start_process()
            for number in list(self._left):
                if number % plot.processes == index:
                    self._start_client(lake, number, self._processes[index])
        if chance.happens(plot.pauses / 60):
            self._blows += 1
            process = chance.pick(self._processes)
            longest = chance.weighted([(1.0, 6), (2 * PENDING_TIMEOUT_SECONDS, 3), (2 * GRACE_SECONDS, 1)])
            seconds = chance.between(0, longest)
            self._world.trace.note(f"{process.name} stands still for {seconds} s")
            self._world.met["process paused"] += 1
            process.pause(seconds)

    async def _settle(self, lake: Lake) -> None:
        """Fair weather, no calls but one's own: everything must work, and nothing may be left over."""
        await self._world.sleep(2 * GRACE_SECONDS)
        process = self._world.start_process()
        done = asyncio.Event()

        async def look() -> None:
            await check_rest(self._world, lake, process)
            done.set()

        process.spawn(look())
        await done.wait()
