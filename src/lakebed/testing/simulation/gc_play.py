"""A play about one repository in which garbage is collected while everything else goes on.

Collectors are clients like others: the job runs in the process of one, and asks another for what the server does. When
everybody has gone and every grace is over, two clean runs leave exactly what a model in plain Python calls reachable.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from lakebed.auth.caller import SYSTEM
from lakebed.catalog.link_tokens import LinkTokens
from lakebed.catalog.settings import Settings
from lakebed.catalog.shared_addresses import sweep_copies
from lakebed.format.gc import QUARANTINE_FOLDER
from lakebed.format.layout import DATA_FOLDER
from lakebed.limits import (
    COPY_LIFETIME_SECONDS,
    GC_CLOCK_SLACK_SECONDS,
    GRACE_SECONDS,
    LINK_LIFETIME_SECONDS,
    SLICE_SECONDS,
)
from lakebed.model.gc_rules import GcRules
from lakebed.spark.gc.decide import Options
from lakebed.spark.gc.protocol import mark, sweep
from lakebed.testing.outside import OUTSIDE
from lakebed.testing.simulation.chance import Chance
from lakebed.testing.simulation.clock import SimClock
from lakebed.testing.simulation.gc_clients import GC_WORK, CollectedLake, GcClient, Manners
from lakebed.testing.simulation.gc_job import GC_PART, Line, SimServer, open_job
from lakebed.testing.simulation.gc_laws import GcLaws
from lakebed.testing.simulation.gc_model import TREE_FOLDERS
from lakebed.testing.simulation.gc_watch import GcWatch
from lakebed.testing.simulation.lake_play import open_lake
from lakebed.testing.simulation.process import SimProcess
from lakebed.testing.simulation.record_laws import LawBrokenError
from lakebed.testing.simulation.rest import check_lake, check_no_leaks, clean_up
from lakebed.testing.simulation.stage import Conditions, Stage
from lakebed.testing.simulation.world import World

_DAY_SECONDS = 24 * 3600.0

RULES: tuple[GcRules | None, ...] = (
    None,
    GcRules(default_days=0),
    GcRules(default_days=0, branches={"dev": 1}),
    GcRules(default_days=1, branches={"main": 0}),
    GcRules(default_days=0, branches={"main": 14}),
)
"""Days are long here: while the play goes on, what is kept for one is kept, and at the end only what is kept for longer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Habits:
    """How garbage is collected."""

    ages: tuple[float, ...] = (0.0,)
    link_seconds: float = LINK_LIFETIME_SECONDS
    rules: tuple[GcRules | None, ...] = RULES
    """The first stands at the beginning."""
    clean: float = 0.4
    lost: float = 0.005
    manners: Manners = Manners()
    sluggish: bool = True
    """Whether runs take long, so that much happens between two steps of one."""


async def play_gc(
    world: World,
    conditions: Conditions,
    habits: Habits,
    *,
    work: Sequence[tuple[str, float]],
    branches: tuple[str, ...] = ("main", "dev", "exp"),
    tidy: float = 0.6,
) -> None:
    """Play it. `work` says how often each kind of call is made."""
    stage = Stage(world, conditions)
    opened = await open_lake(world, stage.processes[0], "lake", branches)
    lake = CollectedLake(
        world,
        opened.repo,
        branches,
        tidy=tidy,
        servers=lambda: stage.processes,
        ages=habits.ages,
        link_seconds=habits.link_seconds,
        rules=habits.rules,
        clean=habits.clean,
        lost=habits.lost,
        manners=habits.manners,
    )
    lake.watch = GcWatch(world, lake.repo)
    if habits.rules[0] is not None:
        await Settings(stage.processes[0].engine, SYSTEM).set_gc_rules(lake.repo.name, habits.rules[0])
    laws = GcLaws(world, lake.repo, link_seconds=habits.link_seconds)
    if habits.sluggish:
        world.network.sluggish = frozenset({GC_PART})

    async def act(process: SimProcess, chance: Chance) -> None:
        await GC_WORK[chance.weighted(work)](GcClient(lake, process, chance))

    await stage.play(act)
    await stage.settle(partial(look, world, lake, laws))


async def look(world: World, lake: CollectedLake, laws: GcLaws, process: SimProcess) -> None:
    """Let everything expire, collect until it is gone, and see that nothing is left but what is reachable, and that it works."""
    await world.sleep(LINK_LIFETIME_SECONDS + COPY_LIFETIME_SECONDS + SLICE_SECONDS + _DAY_SECONDS)
    # Stashes that somebody was popping, first: that changes a branch, and whoever does it has a call of its own.
    listing = partial(process.engine.stashes.list, lake.repo)
    await world.ask(process, "list_stashes", listing, repo=lake.partition)
    await LinkTokens(process.engine).sweep(lake.repo)
    await sweep_copies(process.engine, lake.repo)
    await clean_up(world, [lake], process)
    # What an operation made that died on the way goes by the two runs after the one that ends it.
    for _ in range(3 if laws.model.pending else 2):
        await _collect(world, lake, process)
        await world.sleep(GRACE_SECONDS + GC_CLOCK_SLACK_SECONDS)
    _check_exact(world, lake, laws)
    await check_lake(world, lake, process)
    await clean_up(world, [lake], process)
    check_no_leaks(world)


async def _collect(world: World, lake: CollectedLake, process: SimProcess) -> None:
    line = Line(loop=world.loop, chance=world.chance.fork("last"), servers=lambda: [process], lost=0.0)
    server = SimServer(line, lake.repo, holder="last", link_seconds=lake.link_seconds)
    clock = SimClock(world.loop, skew_seconds=world.clock.skew_seconds)
    job = open_job(server, await process.engine.store_of(lake.repo), clock)
    options = Options(min_age_seconds=_DAY_SECONDS, grace_seconds=GRACE_SECONDS, clean=True, allow_large=True)
    await mark(job, options)
    await sweep(job, options)


def _check_exact(world: World, lake: CollectedLake, laws: GcLaws) -> None:
    stored = {
        key
        for key in world.buckets[lake.repo.namespace].objects
        if key.startswith((DATA_FOLDER, *TREE_FOLDERS))
    }
    # What lies outside is nobody's to collect.
    reachable = {key for key in laws.model.all_there(world.clock.now()) if not key.startswith(OUTSIDE)}
    world.met["left at the end"] += len(reachable)
    if aside := [
        key for key in world.buckets[lake.repo.namespace].objects if key.startswith(QUARANTINE_FOLDER)
    ]:
        raise LawBrokenError(f"still in quarantine at the end: {aside}")
    if lost := sorted(reachable - stored):
        raise LawBrokenError(f"lost at the end: {lost}")
    if left := sorted(stored - reachable):
        raise LawBrokenError(f"garbage at the end: {left}")
