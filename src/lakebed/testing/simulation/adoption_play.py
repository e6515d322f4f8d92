"""A play about a namespace that another installation adopts while its old owner still commits, dumps and sweeps.

The old owner's sweep stands still at one step, which the seed has chosen, until the adoption is over; then it goes on.
Dumps are taken at any moment. In some seeds two installations adopt at once. The laws:

- what the adopted repository's standing commits refer to is there when it goes live, and nobody ever deletes it
- of the repositories that are live, one has the greatest generation, and no two have the same
- adopted refs are refs that the old owner has had, and none of the newest dump is lost
- no dump, whenever it is taken, has a ref on a commit that it says is condemned: a restore would refuse it
"""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from lakebed.auth.caller import SYSTEM
from lakebed.catalog.adoption import Adoptions, Source
from lakebed.catalog.settings import Settings
from lakebed.catalog.tasks import Tasks
from lakebed.errors import ErrorKind, LakebedError
from lakebed.format.adoption import REPORT, report_key
from lakebed.format.dump import read_heads, read_refs_commits
from lakebed.limits import GC_CLOCK_SLACK_SECONDS, GRACE_SECONDS, SLICE_SECONDS
from lakebed.model.commits import Commit
from lakebed.model.gc_rules import GcRules
from lakebed.model.ids import BranchName, CommitId, TagName
from lakebed.model.repository import Repository
from lakebed.model.tasks import TaskState
from lakebed.refs.dump_files import list_dumps, parse_dump_key
from lakebed.refs.owners import newest_generation
from lakebed.spark.gc.decide import Options
from lakebed.spark.gc.protocol import mark, sweep
from lakebed.testing.simulation.chance import Chance
from lakebed.testing.simulation.clock import SimClock
from lakebed.testing.simulation.database import Database
from lakebed.testing.simulation.gc_clients import CollectedLake
from lakebed.testing.simulation.gc_job import GC_PART, Line, SimServer, open_job
from lakebed.testing.simulation.gc_model import Reachability
from lakebed.testing.simulation.lake_play import let_work, open_lake
from lakebed.testing.simulation.network import Delivery
from lakebed.testing.simulation.process import SimProcess
from lakebed.testing.simulation.record_laws import LawBrokenError
from lakebed.testing.simulation.stage import Conditions, Stage
from lakebed.testing.simulation.world import World

PLACE = "mem://lake"

# Shorter than a job waits for an answer, and longer than an adoption takes.
_HELD_SECONDS = 60.0
# What the sweep of an old owner asks of the store, in this order or another: it stands still after one of them.
_STEPS = (
    ("put _lakebed/refs/", (1,)),
    ("put _lakebed/gc/", (1, 2)),
    ("list _lakebed/owners/", (1, 2, 3, 4)),
    ("delete ", (1, 2)),
)
_STOPPED = (None, ErrorKind.REPO_TAKEN_OVER, ErrorKind.LEASE_LOST, ErrorKind.OUTCOME_UNKNOWN)


class AdoptionLaws:
    """An `Observer` of the network: what was adopted stays."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._kept: dict[str, str] = {}
        world.network.observers.append(self)

    def live(self, repo: Repository, commits: list[Commit]) -> None:
        """A repository went live with these commits."""
        model = Reachability(self._world.truth, self._world.buckets[PLACE], repo)
        stored = self._world.buckets[PLACE].objects
        for commit in commits:
            if commit.condemned_by:
                self._world.met["adopted as expired"] += 1
                continue
            try:
                keys = model.of_commit(commit)
            except KeyError as error:
                raise LawBrokenError(f"commit {commit.id} was adopted without its tree: {error}") from error
            if lost := sorted(keys - stored.keys()):
                raise LawBrokenError(f"commit {commit.id} was adopted, and {lost} are gone")
            self._kept |= dict.fromkeys(keys, f"commit {commit.id} of {repo.uid}")

    def arrived(self, delivery: Delivery, what: str, *, write: bool, error: LakebedError | None) -> None:
        verb, *keys = what.split(" ")
        if error is not None or not write:
            return
        if verb == "put" and parse_dump_key(keys[0]) is not None:
            self._check_dump(self._world.buckets[PLACE].objects[keys[0]].data)
        if verb != "delete":
            return
        if lost := sorted(key for key in keys if key in self._kept):
            raise LawBrokenError(f"{delivery.process} deleted {lost}, of {self._kept[lost[0]]}")

    def _check_dump(self, data: bytes) -> None:
        branches, tags = read_heads(data)
        condemned = {c.id for group in read_refs_commits(data) for c in group if c.condemned_by}
        self._world.met["dump with condemned commits"] += bool(condemned)
        refs: list[tuple[str, CommitId]] = [(branch.name, branch.commit_id) for branch in branches]
        refs += [(tag.name, tag.commit_id) for tag in tags]
        if lost := sorted(name for name, commit in refs if commit in condemned):
            raise LawBrokenError(f"a dump has the refs {lost} on condemned commits")


class _Trap:
    """An `Observer` that lets the sweeper stand still after one of its steps, and says so."""

    def __init__(self, world: World, sweeper: SimProcess, chance: Chance) -> None:
        self._world = world
        self._sweeper = sweeper
        self._after, times = chance.pick(_STEPS)
        self._left = chance.pick(times)
        self.armed = False
        self.sprung = asyncio.Event()
        world.network.observers.append(self)

    def arrived(self, delivery: Delivery, what: str, *, write: bool, error: LakebedError | None) -> None:
        if not self.armed or delivery.process != self._sweeper.name or not what.startswith(self._after):
            return
        self._left -= 1
        if not self._left:
            self.armed = False
            self._world.met[f"adopted after: {self._after}"] += 1
            self._world.pause(self._sweeper, _HELD_SECONDS, is_asleep=False)
            self.sprung.set()


class _Crowd:
    """An `Observer`: whenever the collector has read refs and goes on to commits, refs are made; whenever it has changed commits, refs are dumped."""

    def __init__(
        self,
        world: World,
        sweeper: SimProcess,
        *,
        name: Callable[[], Awaitable[None]],
        dump: Callable[[], Awaitable[None]],
    ) -> None:
        self._world = world
        self._sweeper = sweeper
        self._acts = {"scan": name, "set_rows": dump}
        self._acting: list[asyncio.Future[None]] = []
        world.network.observers.append(self)

    def arrived(self, delivery: Delivery, what: str, *, write: bool, error: LakebedError | None) -> None:
        verb = what.split(" ", maxsplit=1)[0]
        act = self._acts.get(verb)
        is_about_refs = verb == "set_rows" or " commits/" in what
        if (
            act is not None
            and is_about_refs
            and (delivery.process, delivery.part) == (self._sweeper.name, GC_PART)
        ):
            self._acting.append(asyncio.ensure_future(act()))

    async def leave(self) -> None:
        """Let everything that was begun end."""
        self._world.network.observers.remove(self)
        await asyncio.gather(*self._acting)


async def play_adoption(world: World, conditions: Conditions) -> None:
    """Play it."""
    stage = Stage(world, conditions)
    writer, sweeper = stage.processes[:2]
    chance = world.chance.fork("adoption")
    opened = await open_lake(world, writer, "lake", ("main", "dev"))
    lake = CollectedLake(world, opened.repo, ("main", "dev"), servers=lambda: [sweeper], link_seconds=0.0)
    await Settings(writer.engine, SYSTEM).set_gc_rules("lake", GcRules(default_days=0))
    laws, trap = AdoptionLaws(world), _Trap(world, sweeper, chance)
    old = _OldOwner(lake, writer, sweeper, chance)
    for _ in range(3):
        await old.work()
    await world.sleep(2 * SLICE_SECONDS + GC_CLOCK_SLACK_SECONDS)
    world.network.sluggish = frozenset({GC_PART})
    for _ in range(2):
        await old.mark()
        await world.sleep(1.2 * GRACE_SECONDS)
    world.network.sluggish = frozenset()
    # Without a sweep so far, a dump of before is still whole.
    early = await old.dumps()
    for _ in range(chance.pick((0, 1, 2))):
        await old.work()
    installations = [_Adopter(world, laws, chance, number) for number in range(chance.pick((1, 1, 2)))]
    trap.armed = True
    sweeping = asyncio.ensure_future(old.collect(sweep))
    await asyncio.wait([asyncio.ensure_future(trap.sprung.wait()), sweeping], return_when="FIRST_COMPLETED")
    source = Source(name=chance.pick(early)) if early and chance.happens(0.3) else Source()
    await asyncio.gather(*(each.adopt(source) for each in installations))
    await sweeping
    world.met["sweep went on after an adoption"] += 1
    await old.work()
    for step in (mark, sweep):
        await old.collect(step)
    await world.sleep(3 * GRACE_SECONDS)
    await _judge(world, old, installations)


class _OldOwner:
    """The installation that is about to lose its namespace: one process writes, one collects garbage."""

    def __init__(self, lake: CollectedLake, writer: SimProcess, sweeper: SimProcess, chance: Chance) -> None:
        self._lake = lake
        self._world = lake.world
        self._writer = writer
        self._sweeper = sweeper
        self._chance = chance.fork("old owner")

    async def work(self) -> None:
        """Write and commit, and dump at any moment."""
        for _ in range(self._chance.pick((1, 2, 3))):
            await let_work(self._lake, self._writer, self._chance, "write", times=3)
            await self._dump(0.2)
            await let_work(self._lake, self._writer, self._chance, "commit")
            await self._dump(0.5)

    async def mark(self) -> None:
        """Mark garbage. Meanwhile commits that are about to expire get names, and refs are dumped, at the worst moment."""
        crowd = _Crowd(
            self._world, self._sweeper, name=self._name_some, dump=partial(self._dump, 0.7, full=0.8)
        )
        await self.collect(mark)
        await crowd.leave()

    async def _name_some(self) -> None:
        """Put tags on commits, which may be condemned at this moment."""
        repo = self._lake.repo
        for commit in self._world.truth.commits(repo.partition):
            if self._chance.happens(0.3):
                name = TagName(f"t{self._chance.number()}")
                create = partial(self._writer.engine.tags.create, repo, name, commit.id)
                await in_process(self._writer, create)

    async def dumps(self) -> list[str]:
        """Return the names of the dumps so far."""
        store = await self._writer.engine.store_of(self._lake.repo)
        return [str(name) for name in await list_dumps(store)]

    async def heads(self) -> set[CommitId]:
        """Return every commit that a ref may have named: nothing is taken from the database here."""
        return {commit.id for commit in self._world.truth.commits(self._lake.partition)}

    async def collect(self, step: Callable[..., Awaitable[object]]) -> None:
        """Collect garbage, or be told that this is another's by now."""
        line = Line(
            loop=self._world.loop,
            chance=self._chance,
            servers=lambda: [self._sweeper],
            lost=0.0,
            met=self._world.met,
        )
        server = SimServer(line, self._lake.repo, holder="old", link_seconds=0.0)
        store = await self._sweeper.engine.store_of(self._lake.repo)
        job = open_job(server, store, SimClock(self._world.loop))
        options = Options(min_age_seconds=0.0, grace_seconds=GRACE_SECONDS, clean=True, allow_large=True)
        error = await in_process(self._sweeper, partial(step, job, options))
        kind = error.kind if error is not None else None
        self._world.met[f"old owner: {kind.value if kind else 'collected'}"] += 1
        if kind not in (*_STOPPED, ErrorKind.GC_RUN_NOT_FOUND, ErrorKind.GC_RUNNING):
            raise LawBrokenError(f"the old owner's collector failed: {error}")

    async def _dump(self, share: float, *, full: float = 0.2) -> None:
        if self._chance.happens(share):
            is_full = self._chance.happens(full)
            await in_process(
                self._writer, lambda: self._writer.engine.automatic_dumps.dump(self._lake.repo, full=is_full)
            )


class _Adopter:
    """An installation with a database of its own."""

    def __init__(self, world: World, laws: AdoptionLaws, chance: Chance, number: int) -> None:
        self._world = world
        self._laws = laws
        self._number = number
        self._chance = chance.fork(f"adopter {number}")
        self._process = world.start_process(Database(world.clock, fences=True))
        self.repo: Repository | None = None
        self.heads: set[CommitId] = set()

    async def adopt(self, source: Source) -> None:
        """Adopt, unless another one is faster or there is no dump."""
        await self._world.sleep(self._chance.between(0.0, 0.05))
        error = await in_process(self._process, lambda: self._adopt(source))
        self._world.met[f"adopted: {error.kind.value if error else 'live'}"] += 1

    async def _adopt(self, source: Source) -> None:
        engine = self._process.engine
        adoptions = Adoptions(engine, SYSTEM, Tasks(engine.parts))
        name, task = await adoptions.start(PLACE, name=f"new-{self._number}", source=source)
        while task.state is TaskState.RUNNING:
            await self._world.sleep(0.5)
            task = await adoptions.status(name, task.id)
        if task.state is not TaskState.DONE:
            raise LakebedError(ErrorKind(task.error_kind or ErrorKind.UNREADABLE), task.error)
        repo = await engine.repo(name)
        commits = [commit async for page in engine.parts.commits.scan(repo) for commit in page]
        self._laws.live(repo, commits)
        self.repo, self.heads = repo, set((await engine.dumper.heads(repo)).commits)
        report = REPORT.open(await (await engine.store_of(repo)).get(report_key(repo.uid)))
        if report.lost_refs and not source.name:
            raise LawBrokenError(f"refs of the newest dump were lost: {report.lost_refs}")
        if self.heads:
            await engine.parts.branches.create(repo, BranchName("mine"), min(self.heads))


async def in_process(process: SimProcess, call: Callable[[], Awaitable[Any]]) -> LakebedError | None:
    """Let a process do something; return the error that it ended with."""
    ended: asyncio.Future[LakebedError | None] = asyncio.get_running_loop().create_future()

    async def run() -> None:
        try:
            await call()
        except LakebedError as error:
            ended.set_result(error)
        else:
            ended.set_result(None)

    process.spawn(run())
    return await ended


async def _judge(world: World, old: _OldOwner, adopters: list[_Adopter]) -> None:
    live = [each.repo for each in adopters if each.repo is not None]
    newest = 0

    async def look() -> None:
        nonlocal newest
        newest = await newest_generation(await adopters[0]._process.engine.open_store(PLACE))

    await in_process(adopters[0]._process, look)
    generations = [repo.generation for repo in live]
    if len(set(generations)) != len(generations) or (live and newest not in generations):
        raise LawBrokenError(
            f"live repositories of one namespace have the generations {generations}, newest {newest}"
        )
    had = await old.heads()
    for each in adopters:
        if strange := each.heads - had:
            raise LawBrokenError(f"{sorted(strange)} were adopted, and the old owner never had them")
    world.met["two adopted at once"] += len(adopters) == 2
