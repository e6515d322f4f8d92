"""A play about repositories of one name: created, deleted, created again, with work going on in all of them.

Whoever created a repository goes on using it after it was deleted and another one has
taken its name, as a process does that is slow to learn of it. None of that may show
in the new one.
"""

from dataclasses import dataclass, field
from functools import partial

from lakebed.limits import LATE_UPLOAD_SECONDS
from lakebed.model.ids import BranchName, RepoName
from lakebed.model.repository import Repository
from lakebed.testing.simulation.chance import Chance
from lakebed.testing.simulation.clients import WORK, Client, Lake
from lakebed.testing.simulation.history import Op, Outcome
from lakebed.testing.simulation.process import SimProcess
from lakebed.testing.simulation.rest import check_lake, check_namespaces, check_no_leaks, clean_up
from lakebed.testing.simulation.stage import Conditions, Stage
from lakebed.testing.simulation.world import World

_NAMES = ("lake", "pond")
_NAMESPACES = ("mem://one", "mem://two", "mem://three")
_WORK = (
    ("create", 2.0),
    ("delete", 1.0),
    ("clean", 1.0),
    ("write", 6.0),
    ("stat", 2.0),
    ("commit", 2.0),
    ("stash", 0.5),
    ("reset_branch", 0.5),
)


async def play_repositories(world: World, conditions: Conditions) -> None:
    """Play it."""
    stage = Stage(world, conditions)
    town = _Town(world)
    await stage.play(town.act)
    await stage.settle(town.look)


@dataclass(slots=True)
class _Town:
    """Every repository there ever was."""

    world: World
    lakes: list[Lake] = field(default_factory=list)

    async def act(self, process: SimProcess, chance: Chance) -> None:
        kind = chance.weighted(_WORK)
        if kind == "create" or not self.lakes:
            await self._create(process, chance)
        elif kind == "delete":
            await self._delete(process, chance)
        else:
            # Mostly the newest, but nobody forgets the others.
            lake = self.lakes[-1] if chance.happens(0.6) else chance.pick(self.lakes)
            if not self.world.truth.is_live(lake.partition):
                self.world.met["work in a deleted repository"] += 1
            await WORK[kind](Client(lake, process, chance))

    async def look(self, process: SimProcess) -> None:
        """See that what lives works, and that nothing is left of the rest."""
        live = [lake for lake in self.lakes if self.world.truth.is_live(lake.partition)]
        for lake in live:
            await check_lake(self.world, lake, process)
        await clean_up(self.world, live, process)
        await self._end_uploads(process)
        # Once for uploads that outlasted their repository, once more if a creation that died was in the way.
        for _ in range(2):
            await self.world.sleep(LATE_UPLOAD_SECONDS)
            await process.cleaner.clean_once()
        check_no_leaks(self.world)
        check_namespaces(self.world)

    async def _end_uploads(self, process: SimProcess) -> None:
        """Let uploads to some of the deleted repositories end, long after their data was deleted."""
        chance = self.world.chance.fork("uploads")
        for lake in self.lakes:
            if not self.world.truth.is_live(lake.partition) and chance.happens(0.5):
                self.world.met["upload to a deleted repository"] += 1
                await WORK["write"](Client(lake, process, chance))

    async def _create(self, process: SimProcess, chance: Chance) -> Op:
        name, namespace = chance.pick(_NAMES), chance.pick(_NAMESPACES)
        call = partial(
            process.engine.repositories.create, RepoName(name), namespace, default_branch=BranchName("main")
        )
        op = await self.world.ask(process, "create_repository", call, repo=name, namespace=namespace)
        if op.outcome is Outcome.DONE:
            self._know(op.result)
        return op

    async def _delete(self, process: SimProcess, chance: Chance) -> Op:
        lake = chance.pick(self.lakes)
        # Its data goes too: otherwise its namespace can never be used again, and there are only a few.
        call = partial(process.engine.repositories.delete, lake.repo, delete_data=True)
        return await self.world.ask(
            process, "delete_repository", call, repo=lake.repo.name, uid=lake.repo.uid
        )

    def _know(self, repo: Repository) -> None:
        self.lakes.append(Lake(self.world, repo, ("main",)))
