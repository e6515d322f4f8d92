"""`SimProcess`: one server process, wired as the real one is, over a network and a clock of the simulation."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from contextvars import copy_context
from dataclasses import replace
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from prometheus_client import CollectorRegistry

from lakebed.committed.cache import RangeCache
from lakebed.compaction.jobs import JobRunner, Made
from lakebed.compaction.limits import CompactionLimits
from lakebed.compaction.meters import CompactionMeters
from lakebed.compaction.worker import CompactionWorker
from lakebed.env.ids import SeededIds
from lakebed.env.work import InlineWorkers, ProcessWorkers
from lakebed.errors import CorruptError, ErrorKind
from lakebed.format.cut import CutRule
from lakebed.kv.port import KVStore
from lakebed.kv.wrappers.shared_reads import SharedReads
from lakebed.model.compaction import Job
from lakebed.model.repository import Repository
from lakebed.objects.drivers.memory import MemoryBucket, MemoryObjects
from lakebed.objects.namespaces import normalise_namespace
from lakebed.objects.open_stores import OpenStores
from lakebed.objects.places import Places
from lakebed.objects.port import ObjectStore
from lakebed.objects.wrappers.retry import RetryingObjects
from lakebed.refs.segment_sweeper import SegmentSweeper
from lakebed.server.installation import helper_died
from lakebed.server.maintenance import Maintenance
from lakebed.server.wiring import Surroundings, wire
from lakebed.staging.appending import SegmentUse
from lakebed.testing.outside import OUTSIDE, OutsideMemory
from lakebed.testing.simulation.chance import Chance
from lakebed.testing.simulation.clock import SimClock
from lakebed.testing.simulation.database import Database
from lakebed.testing.simulation.helpers import Helpers
from lakebed.testing.simulation.kv import SimKV
from lakebed.testing.simulation.loop import OWNER, PART, SimLoop
from lakebed.testing.simulation.network import Network
from lakebed.testing.simulation.objects import SimObjects
from lakebed.testing.simulation.record_laws import LawBrokenError
from lakebed.testing.simulation.watch import attempt_part
from lakebed.versioning.parts import Parts

P = ParamSpec("P")
T = TypeVar("T")

# Small, so that a handful of changes is already worth compacting.
_USUAL_LIMITS = CompactionLimits(
    fold_layers=2,
    fold_layers_max=3,
    fold_quiet_seconds=3.0,
    l2_layers=4,
    l2_entries=6,
    l2_tombstones=3,
    l2_pause_seconds=0.5,
    l2_rest_seconds=1.0,
    l2_quiet_seconds=6.0,
    seal_rows=3,
    seal_quiet_rows=1,
    seal_quiet_seconds=0.5,
)
# Somebody has changed the settings, and not every process has been started again.
_OTHER_LIMITS = replace(
    _USUAL_LIMITS, fold_layers=3, fold_layers_max=6, l2_layers=2, seal_rows=6, failures_max=1, jobs_max=2
)
# One, so that a second repository closes the store of the first.
_STORES_OPEN_MAX = 1
# Small, so that a handful of paths already makes a tree of several ranges.
_CUT_RULE = CutRule(entries_expected=3, entries_max=6)
# How many jobs kill the helper process that does them.
_HELPER_DEATHS = 0.15
# More often than a search for the one layer that fails needs it, in folds and in trees, by the limits of any process.
_TASTES_MAX = 60
# Every layer goes into the tree, at once.
EAGER_LIMITS = replace(_USUAL_LIMITS, fold_layers=100, fold_quiet_seconds=1000.0, l2_layers=1, seal_rows=1)
# Layers are folded for long before they go into the tree.
FOLDING_LIMITS = replace(
    _USUAL_LIMITS,
    fold_layers=4,
    fold_layers_max=6,
    l2_layers=1000,
    l2_entries=1000,
    l2_tombstones=1000,
    l2_quiet_seconds=120.0,
)


class Toxin(StrEnum):
    """What a layer does to the workers that read it, and to nobody else."""

    DAMAGED = "damaged"
    """The job fails, however often it is tried."""
    DEADLY = "deadly"
    """The process dies."""


class SimProcess:
    """An engine that can die. What it keeps in memory dies with it; a new process takes its place."""

    def __init__(
        self,
        name: str,
        *,
        loop: SimLoop,
        chance: Chance,
        network: Network,
        database: Database,
        buckets: dict[str, MemoryBucket],
        clock: SimClock,
        die: Callable[["SimProcess"], None],
        toxins: Mapping[str, Toxin],
        tasted: Counter[str],
        toil: Mapping[str, Callable[..., float]],
        temp: Path,
        segments: bool = False,
        compaction: bool = False,
        limits: CompactionLimits | None = None,
    ) -> None:
        self.name = name
        self.owner = loop.own(name)
        self._loop = loop
        self._network = network
        self._buckets = buckets
        self._clock = clock
        self._open: dict[str, SimObjects] = {}
        kv: KVStore = SimKV(database, network)
        if chance.happens(0.3):
            kv = SharedReads(kv)
        workers = _Toiling(toil)
        outside = SimObjects(
            MemoryObjects(clock=clock, bucket=buckets.setdefault(OUTSIDE, MemoryBucket())), network
        )
        self.helpers = Helpers(chance.fork("helpers"), deaths=_HELPER_DEATHS)
        ids = SeededIds(chance.number())
        self.skew_seconds = chance.between(-3600, 3600)
        skewed = self._own_clock = SimClock(loop, skew_seconds=self.skew_seconds)
        self.limits = _USUAL_LIMITS if chance.happens(0.7) else _OTHER_LIMITS
        if limits is not None:
            self.limits = limits
        self._retry = partial(RetryingObjects, clock=skewed, ids=ids) if chance.happens(0.8) else None
        self.stores = OpenStores(
            self._open_place,
            clock=skewed,
            place_of=normalise_namespace,
            open_max=_STORES_OPEN_MAX,
        )
        wired = wire(
            Surroundings(
                kv=kv,
                stores=self.stores,
                external=OutsideMemory(outside),
                places=Places(),
                cache=RangeCache(None, workers=workers),
                workers=workers,
                processes=ProcessWorkers(2, died=helper_died, open_pool=self.helpers.open_pool),
                clock=skewed,
                ids=ids,
                temp=temp,
                staging_wait_seconds=chance.pick([0.0, 0.0, 0.005]),
                cut_rule=_CUT_RULE,
                compaction_limits=self.limits,
                staging_segments=SegmentUse.ALWAYS if segments and chance.happens(0.7) else SegmentUse.AUTO,
            )
        )
        self._wired, self._ids = wired, ids
        self.engine = wired.engine
        self.tasks = wired.sessions.tasks
        self.cleaner = wired.cleaner
        self.compactor: CompactionWorker | None = None
        if compaction:
            self.compactor = CompactionWorker(
                wired.engine.compaction,
                _Runner(
                    wired.engine.parts,
                    wired.engine.store_of,
                    toxins,
                    tasted,
                    die=partial(die, self),
                    fail=loop.fail,
                ),
                places=2,
                clock=skewed,
                ids=ids,
                meters=CompactionMeters(CollectorRegistry()),
            )
        self.kv = kv
        self.sweeper = SegmentSweeper(kv, open_store=self.stores.at, clock=skewed, ids=ids)

    async def maintain(self, interval_seconds: float) -> None:
        """Be the maintenance task of a worker."""
        await Maintenance(self._wired, clock=self._own_clock, ids=self._ids, seconds=interval_seconds).run()

    def work(self) -> None:
        """Let the compactor run, if there is one."""
        if self.compactor is not None:
            self.spawn(self.compactor.run(), part="worker")

    @property
    def alive(self) -> bool:
        return self.owner.alive

    @property
    def awake(self) -> bool:
        """Whether it would answer."""
        return self.alive and self.owner.awake_at <= self._loop.time()

    def spawn(self, work: Coroutine[Any, Any, None], *, part: str = "") -> "asyncio.Task[None]":
        """Run something in this process, as the part of it that `part` names. If it fails, so does the run."""
        context = copy_context()
        context.run(OWNER.set, self.owner)
        context.run(PART.set, part)
        task = self._loop.create_task(work, context=context)
        task.add_done_callback(self._ended)
        return task

    def kill(self) -> None:
        self._loop.kill(self.owner)

    def pause(self, seconds: float, *, is_asleep: bool) -> None:
        """Stand still for so long; asleep, with the whole machine, its monotonic clock included."""
        self._loop.pause(self.owner, seconds)
        if is_asleep:
            self._own_clock.suspend(seconds)

    def _ended(self, task: "asyncio.Task[None]") -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self._loop.fail(error)

    def _open_place(self, place: str) -> ObjectStore:
        bucket = self._buckets.setdefault(place, MemoryBucket())
        self._open = {each: known for each, known in self._open.items() if not known.is_closed}
        if place in self._open:
            raise LawBrokenError(f"{place} is opened while it is open")
        store = self._open[place] = SimObjects(MemoryObjects(clock=self._clock, bucket=bucket), self._network)
        return store if self._retry is None else self._retry(store)


class _Toiling(InlineWorkers):
    """Work that takes time: others go on meanwhile."""

    def __init__(self, toil: Mapping[str, Callable[..., float]]) -> None:
        self._toil = toil

    async def run(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        toil = self._toil.get(getattr(function, "__name__", ""))
        if toil is not None:
            await asyncio.sleep(toil(*args, **kwargs))
        return function(*args, **kwargs)


class _Runner(JobRunner):
    """Tells whose requests are whose: from `run` on, its task is the attempt's. Meets poison, too."""

    def __init__(
        self,
        parts: Parts,
        store_of: Callable[[Repository], Awaitable[ObjectStore]],
        toxins: Mapping[str, Toxin],
        tasted: Counter[str],
        *,
        die: Callable[[], None],
        fail: Callable[[BaseException], None],
    ) -> None:
        # A process of the simulation does everything: what one job has read others may read.
        super().__init__(parts, store_of, let_go=lambda: None)
        self._toxins = toxins
        self._tasted = tasted
        self._die = die
        self._fail = fail

    async def run(self, repo: Repository, job: Job) -> Made:
        PART.set(attempt_part(job.spec.incarnation, job.token))
        made = await super().run(repo, job)
        self._taste(source.name for source in job.spec.sources)
        toxins = {self._toxins.get(source.name) for source in job.spec.sources}
        if Toxin.DEADLY in toxins:
            self._die()
            await asyncio.Event().wait()
        if Toxin.DAMAGED in toxins:
            raise CorruptError(ErrorKind.FILE_MISSING, f"a source of job {job.id} cannot be read")
        return made

    def _taste(self, names: Iterable[str]) -> None:
        """A layer that nobody can read is found out, and then left alone."""
        for name in names:
            if name in self._toxins:
                self._tasted[name] += 1
                if self._tasted[name] > _TASTES_MAX:
                    # An attempt that raises has only failed once more.
                    self._fail(LawBrokenError(f"{name} cannot be read, and is tried {_TASTES_MAX} times"))
