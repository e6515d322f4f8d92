"""`Stage`: clients at work, the processes that serve them, and what befalls those."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from lakebed.limits import GRACE_SECONDS, LEASE_SECONDS, PENDING_TIMEOUT_SECONDS
from lakebed.model.branch import Branch
from lakebed.model.layers import SegmentLayer, layer_name
from lakebed.testing.simulation.chance import Chance
from lakebed.testing.simulation.loop import WORLD
from lakebed.testing.simulation.network import CALM, ROUGH, Weather
from lakebed.testing.simulation.process import SimProcess, Toxin
from lakebed.testing.simulation.steps import POINTS
from lakebed.testing.simulation.world import World

Act = Callable[[SimProcess, Chance], Awaitable[object]]
"""One thing that a client does."""

# An hour, in which nobody compacts anything.
_REST_SECONDS = 3600.0
# Long enough for a search that never ends to try a layer hundreds of times.
_SPOILED_SECONDS = 1200.0


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
    ambushes: int = 2
    """How often a process is killed or paused just when it has come to one step, which the seed has chosen."""
    ambush_at: Sequence[tuple[str, str]] = tuple(
        (protocol, step) for protocol, steps in POINTS.items() for step in steps
    )
    """The steps that the seed chooses from."""
    ambush_everywhere: bool = False
    """Whether it happens at all of them."""
    ambush_share: float = 0.4
    """How often it happens there, until it has happened often enough."""
    ambush_pauses: float = 0.3
    """How many of those are pauses."""
    ambush_seconds: Sequence[float] = (2 * LEASE_SECONDS, 2 * PENDING_TIMEOUT_SECONDS, 2 * GRACE_SECONDS)
    """How long those are at most."""
    ambush_least: float = LEASE_SECONDS
    """How long those are at least."""
    rush_at: Sequence[tuple[str, str]] = ()
    """The steps at which everybody who is thinking acts instead, so that much happens at once just then."""
    rush_seconds: float = 2.0
    """Within which time."""
    patience: float = 1.0
    """How much longer than usual clients wait between two calls."""
    cleaning_seconds: float = 200.0
    """How long the cleaner of each process waits between two runs."""
    clock_seconds: float = 20.0
    """How far the database's clock jumps when it does."""
    works: bool = True
    """Whether the compactor of each process works all the time, and not only when the play says so."""
    rests: bool = False
    """Whether there is a time without a single worker."""
    poisons: float = 0.0
    """How often a layer becomes one that no worker can read, in a minute."""
    deadly: float = 0.3
    """How many of them kill."""
    damages: bool = False
    """Whether there is an outage after which the file of a segment is damaged, until it is made whole again."""
    spoils: bool = False
    """Whether a layer can never be read, and workers have a long time to find that out."""
    forgets: float = 0.0
    """How often the job documents are lost, in a minute."""
    restores: bool = False
    """Whether the database is put back to an earlier moment, with a worker left over that does not know."""


class Stage:
    """Where clients act until they have no calls left, whatever happens to their processes."""

    def __init__(self, world: World, conditions: Conditions) -> None:
        self._world = world
        self._conditions = conditions
        self._chance = world.chance.fork("stage")
        self._left = dict.fromkeys(range(conditions.clients), conditions.calls)
        """How many calls each client has left."""
        self._blows = 0
        self._ambushes = conditions.ambushes
        target = self._chance.fork("target").pick(conditions.ambush_at)
        self._targets = frozenset(conditions.ambush_at if conditions.ambush_everywhere else (target,))
        self._ambush_chance = self._chance.fork("ambush")
        self._rush = asyncio.Event()
        self._resting = False
        self._trapped: SimProcess | None = None
        """A worker that is to stand still as soon as it has uploaded something."""
        self.processes = [self._start_process() for _ in range(conditions.processes)]

    async def play(self, act: Act) -> None:
        """Let everybody act to the end, then let the weather clear up."""
        self._world.network.weather = self._conditions.weather
        self._world.steps.ambush = self._ambush
        for number in list(self._left):
            self._start_client(act, number)
        events = [asyncio.ensure_future(event) for event in self._events()]
        while self._left or not all(event.done() for event in events):
            await self._world.sleep(1.0)
            await self._replace_fallen(act)
            if self._blows < self._conditions.blows:
                await self._interfere(act)
        for event in events:
            event.result()
        self._world.steps.ambush = None
        self._world.network.weather = CALM

    async def settle(self, look: Callable[[SimProcess], Awaitable[None]]) -> None:
        """In fair weather, long after everybody has gone: let a new process look at what is left."""
        for process in self._world.processes:
            self._world.kill(process)
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
        process.spawn(process.maintain(self._conditions.cleaning_seconds), part="cleaner")
        if self._conditions.works and not self._resting:
            process.work()
        return process

    def _start_client(self, act: Act, number: int) -> None:
        process = self.processes[number % len(self.processes)]
        process.spawn(self._be_client(act, number, process))

    async def _be_client(self, act: Act, number: int, process: SimProcess) -> None:
        chance = self._chance.fork(f"client {number} {self._left[number]}")
        while self._left[number]:
            await self._wait(chance)
            self._left[number] -= 1
            await act(process, chance)
        del self._left[number]

    async def _wait(self, chance: Chance) -> None:
        """Think, unless there is a rush."""
        try:
            async with asyncio.timeout(self._think(chance)):
                await self._rush.wait()
        except TimeoutError:
            return
        await self._world.sleep(chance.between(0.0, self._conditions.rush_seconds))

    def _think(self, chance: Chance) -> float:
        longest = chance.weighted([(0.005, 6), (0.1, 3), (2.0, 1), (30.0, 0.3), (600.0, 0.03)])
        return chance.between(0, longest) * self._conditions.patience

    def _events(self) -> list[Coroutine[Any, Any, None]]:
        """Return what happens once in a play."""
        return [
            event()
            for event, wanted in (
                (self._rest, self._conditions.rests),
                (self._restore, self._conditions.restores),
                (self._damage, self._conditions.damages),
                (self._spoil, self._conditions.spoils),
            )
            if wanted
        ]

    async def _interfere(self, act: Act) -> None:
        chance, conditions = self._chance, self._conditions
        if chance.happens(conditions.kills / 60):
            self._kill(chance.pick(self.processes))
            await self._replace_fallen(act)
        if chance.happens(conditions.pauses / 60):
            longest = chance.weighted(conditions.pause_seconds)
            self._pause(chance.pick(self.processes), chance.between(0, longest))
        if chance.happens(conditions.pauses / 120):
            self._world.set_clock(chance.between(-conditions.clock_seconds, conditions.clock_seconds))
        if chance.happens(conditions.poisons / 60):
            self._poison()
        if chance.happens(conditions.forgets / 60):
            self._world.forget_jobs()

    def _ambush(self, protocol: str, step: str, name: str) -> None:
        """Some process has come to a step of a protocol: perhaps it comes no further."""
        chance = self._ambush_chance
        if (protocol, step) in self._conditions.rush_at:
            # Whoever waits right now: the event wakes them, and stays clear.
            self._world.met[f"rush, {protocol}: {step}"] += 1
            self._rush.set()
            self._rush.clear()
        if self._trapped is not None and name == self._trapped.name and step == "upload all":
            self._pause(self._trapped, chance.between(20, 4 * LEASE_SECONDS))
            self._trapped = None
        if (
            not self._ambushes
            or (protocol, step) not in self._targets
            or not chance.happens(self._conditions.ambush_share)
        ):
            return
        process = next((each for each in self.processes if each.name == name and each.alive), None)
        if process is None:
            return
        self._ambushes -= 1
        # Before the answer has arrived, or after.
        delay = chance.between(0, 0.006)
        blow: Callable[[], None] = partial(self._kill, process)
        if chance.happens(self._conditions.ambush_pauses):
            seconds = chance.between(
                self._conditions.ambush_least, chance.pick(self._conditions.ambush_seconds)
            )
            blow = partial(self._pause, process, seconds)
        self._world.loop.call_later(delay, blow, context=WORLD)

    async def _replace_fallen(self, act: Act) -> None:
        """Let others take the places of dead processes, and their clients, after a while."""
        for index, fallen in enumerate(self.processes):
            if fallen.alive:
                continue
            await self._world.sleep(self._chance.between(0, 3))
            self.processes[index] = self._start_process()
            for number in list(self._left):
                if number % len(self.processes) == index:
                    self._start_client(act, number)

    async def _rest(self) -> None:
        """Let every worker go home for an hour, and come back."""
        await self._world.sleep(self._chance.fork("rest").between(1, 60))
        self._resting = True
        for process in list(self.processes):
            self._kill(process)
        await self._world.sleep(_REST_SECONDS)
        self._resting = False
        self._world.trace.note("the workers come back")
        self._world.sightings.rested()
        for process in self.processes:
            process.work()
        await self._world.sleep(60.0)

    def _poison(self) -> None:
        """Let some layer be one that no worker can read."""
        layers = [
            layer_name(layer)
            for repo in self._world.truth.live_repositories()
            for record in self._world.truth.branches(repo.partition)
            if isinstance(record, Branch)
            for layer in record.sealed
        ]
        if not layers:
            return
        toxin = Toxin.DEADLY if self._chance.happens(self._conditions.deadly) else Toxin.DAMAGED
        layer = self._chance.pick(layers)
        self._world.trace.note(f"{layer} is {toxin}")
        self._world.toxins[layer] = toxin
        if toxin is Toxin.DEADLY:
            self._world.sightings.poisoned()

    async def _damage(self) -> None:
        """Let all machines come back from an outage with a file that nobody can read, for minutes."""
        world, chance = self._world, self._chance.fork("damage")
        await world.sleep(chance.between(1, 20))
        while self._left:
            segments = [
                (repo, layer)
                for repo in world.truth.live_repositories()
                for record in world.truth.branches(repo.partition)
                if isinstance(record, Branch)
                for layer in record.sealed
                if isinstance(layer, SegmentLayer)
            ]
            if segments:
                repair = world.damage(*chance.pick(segments))
                # What they keep in memory would do for a while.
                for process in list(self.processes):
                    self._kill(process)
                await world.sleep(chance.between(60, 300))
                repair()
                return
            await world.sleep(1.0)

    async def _spoil(self) -> None:
        """Let the newest of several layers be one that no worker can read, and let the workers be with it for a while."""
        world = self._world
        while self._left:
            records = [
                r for repo in world.truth.live_repositories() for r in world.truth.branches(repo.partition)
            ]
            found = [r.sealed[0] for r in records if isinstance(r, Branch) and len(r.sealed) > 1]
            if found:
                name = layer_name(self._chance.fork("spoil").pick(found))
                world.trace.note(f"{name} is {Toxin.DAMAGED}")
                world.toxins[name] = Toxin.DAMAGED
                await world.sleep(_SPOILED_SECONDS)
                world.met["layer spoilt"] += world.tasted[name] > 0
                return
            await world.sleep(0.1)

    async def _restore(self) -> None:
        """Put the database back by some minutes, with a worker on another machine that nobody has told."""
        world, chance = self._world, self._chance.fork("restore")
        lodger = world.start_process()
        lodger.work()
        await world.sleep(chance.between(1, 30))
        backup = world.database.backup()
        rows = {partition: dict(rows) for partition, rows in world.truth.partitions.items()}
        world.trace.note("a backup is made")
        self._trapped = lodger
        await world.sleep(chance.between(5, 60))
        self._trapped = None
        for process in self.processes:
            self._kill(process)
        world.restore(backup, rows)

    def _kill(self, process: SimProcess) -> None:
        self._blows += 1
        self._world.met["process killed"] += 1
        self._world.kill(process)

    def _pause(self, process: SimProcess, seconds: float) -> None:
        self._blows += 1
        self._world.met["process paused"] += 1
        self._world.pause(process, seconds, is_asleep=self._ambush_chance.happens(0.5))
