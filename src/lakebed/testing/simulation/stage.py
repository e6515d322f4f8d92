"""`Stage`: clients at work, the processes that serve them, and what befalls those."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from lakebed.limits import GRACE_SECONDS, PENDING_TIMEOUT_SECONDS
from lakebed.testing.simulation.chance import Chance
from lakebed.testing.simulation.network import CALM, ROUGH, Weather
from lakebed.testing.simulation.process import SimProcess
from lakebed.testing.simulation.world import World

Act = Callable[[SimProcess, Chance], Awaitable[object]]
"""One thing that a client does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """How many work, how hard, and in which weather."""

    clients: int = 6
    calls: int = 25
    """By each client."""
    processes: int = 2
    weather: Weather = ROUGH
    kills: float = 2.0
    """How often a process is killed, in a minute."""
    pauses: float = 2.0
    """How often a process is paused, in a minute."""
    pause_seconds: Sequence[tuple[float, float]] = (
        (1.0, 6),
        (2 * PENDING_TIMEOUT_SECONDS, 3),
        (2 * GRACE_SECONDS, 1),
    )
    """The longest pauses, and how often each."""
    blows: int = 15
    """Kills and pauses in all: or a client that thinks for long would never get to its last call."""
    patience: float = 1.0
    """How much longer than usual clients wait between two calls."""
    cleaning_seconds: float = 200.0
    """How long the cleaner of each process waits between two runs."""


class Stage:
    """Where clients act until they have no calls left, whatever happens to their processes."""

    def __init__(self, world: World, conditions: Conditions) -> None:
        self._world = world
        self._conditions = conditions
        self._chance = world.chance.fork("stage")
        self._left = dict.fromkeys(range(conditions.clients), conditions.calls)
        """How many calls each client has left."""
        self._blows = 0
        self.processes = [self._start_process() for _ in range(conditions.processes)]

    async def play(self, act: Act) -> None:
        """Let everybody act to the end, then let the weather clear up."""
        self._world.network.weather = self._conditions.weather
        for number in list(self._left):
            self._start_client(act, number)
        while self._left:
            await self._world.sleep(1.0)
            if self._blows < self._conditions.blows:
                await self._interfere(act)
        self._world.network.weather = CALM

    async def settle(self, look: Callable[[SimProcess], Awaitable[None]]) -> None:
        """In fair weather, long after everybody has gone: let a new process look at what is left."""
        for process in self.processes:
            process.kill()
        await self._world.sleep(2 * GRACE_SECONDS)
        process = self._world.start_process()
        done = asyncio.Event()

        async def run() -> None:
            await look(process)
            done.set()

        process.spawn(run())
        await done.wait()

    def _start_process(self) -> SimProcess:
        process = self._world.start_process()
        process.spawn(process.cleaner.run(interval_seconds=self._conditions.cleaning_seconds))
        if process.compactor is not None:
            process.spawn(process.compactor.run())
        return process

    def _start_client(self, act: Act, number: int) -> None:
        process = self.processes[number % len(self.processes)]
        process.spawn(self._be_client(act, number, process))

    async def _be_client(self, act: Act, number: int, process: SimProcess) -> None:
        chance = self._chance.fork(f"client {number} {self._left[number]}")
        while self._left[number]:
            await self._world.sleep(self._think(chance))
            self._left[number] -= 1
            await act(process, chance)
        del self._left[number]

    def _think(self, chance: Chance) -> float:
        longest = chance.weighted([(0.005, 6), (0.1, 3), (2.0, 1), (30.0, 0.3), (600.0, 0.03)])
        return chance.between(0, longest) * self._conditions.patience

    async def _interfere(self, act: Act) -> None:
        chance, conditions = self._chance, self._conditions
        if chance.happens(conditions.kills / 60):
            await self._replace(act, chance.below(len(self.processes)))
        if chance.happens(conditions.pauses / 60):
            longest = chance.weighted(conditions.pause_seconds)
            self._pause(chance.pick(self.processes), chance.between(0, longest))
        if chance.happens(conditions.pauses / 120):
            # The database fails over, and its new machine has another time.
            self._world.clock.skew_seconds = chance.between(-20, 20)

    async def _replace(self, act: Act, index: int) -> None:
        """Kill a process; another one takes its place, and its clients, after a while."""
        self._blows += 1
        self._world.met["process killed"] += 1
        self._world.trace.note(f"{self.processes[index].name} dies")
        self.processes[index].kill()
        await self._world.sleep(self._chance.between(0, 3))
        self.processes[index] = self._start_process()
        for number in list(self._left):
            if number % len(self.processes) == index:
                self._start_client(act, number)

    def _pause(self, process: SimProcess, seconds: float) -> None:
        self._blows += 1
        self._world.met["process paused"] += 1
        self._world.trace.note(f"{process.name} stands still for {seconds} s")
        process.pause(seconds)
