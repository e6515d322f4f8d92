"""An engine in memory with compaction at hand, and time that the test owns."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from prometheus_client import CollectorRegistry

from lakebed.catalog.diffs import DiffQuery
from lakebed.compaction.jobs import JobRunner
from lakebed.compaction.limits import CompactionLimits
from lakebed.compaction.meters import CompactionMeters
from lakebed.compaction.scheduler import Report
from lakebed.compaction.service import Answer, CompactionService
from lakebed.compaction.worker import CompactionWorker
from lakebed.env.clock import SECOND, Instant, after
from lakebed.env.ids import SeededIds
from lakebed.format.cut import CutRule
from lakebed.kv.drivers.memory import MemoryKV
from lakebed.kv.wrappers.faults import Call, Fault, FaultyKV, Plan, no_faults
from lakebed.model.branch import Branch
from lakebed.model.compaction import Schedule
from lakebed.model.ids import BranchName
from lakebed.model.repository import Repository
from lakebed.server.wiring import Wired
from lakebed.staging.record import seal
from lakebed.testing.lake import COMMIT, open_wired

MAIN = BranchName("main")
# Every sealed layer is worth a tree, and trees have ranges of a few entries.
LIMITS = CompactionLimits(
    l2_layers=1, seal_rows=50, seal_quiet_rows=5, seal_quiet_seconds=2.0, failures_max=1
)
_BLINK = 0.5


class HandClock:
    """Time stands still until the test moves it; only the short pauses between two tries pass by themselves."""

    def __init__(self) -> None:
        self._now = Instant(1_700_000_000 * SECOND)
        self._sleepers: list[tuple[Instant, asyncio.Future[None]]] = []

    def now(self) -> Instant:
        return self._now

    def monotonic(self) -> float:
        return self._now / SECOND

    async def sleep(self, seconds: float) -> None:
        if seconds < _BLINK:
            await asyncio.sleep(0)
            return
        sleeper: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._sleepers.append((after(self._now, seconds), sleeper))
        await sleeper

    async def advance(self, seconds: float) -> None:
        """Let so much time pass, a second at a time, and everybody who wakes up go on."""
        end = after(self._now, seconds)
        while self._now < end:
            self._now = min(end, after(self._now, 1.0))
            for due, sleeper in list(self._sleepers):
                if due <= self._now:
                    self._sleepers.remove((due, sleeper))
                    if not sleeper.done():
                        sleeper.set_result(None)
            await settle()


async def settle() -> None:
    """Let everything that can go on without time passing do so."""
    for _ in range(200):
        await asyncio.sleep(0)


@dataclass(slots=True)
class Faults:
    """A plan that a test can change while the store is in use."""

    plan: Plan = field(default=no_faults)

    def __call__(self, call: Call) -> Fault | None:
        return self.plan(call)


@dataclass(frozen=True, slots=True)
class Shell:
    """An engine, its repository `lake`, and what spoils its KV."""

    wired: Wired
    repo: Repository
    clock: HandClock
    faults: Faults

    @property
    def service(self) -> CompactionService:
        return self.wired.engine.compaction

    @property
    def runner(self) -> JobRunner:
        return self.wired.job_runner

    def another_service(self) -> CompactionService:
        """Return the service of another process."""
        engine = self.wired.engine
        return CompactionService(engine.parts, engine.repositories, limits=self.service.limits)

    def worker(self, *, seed: int = 1, runner: JobRunner | None = None, places: int = 2) -> CompactionWorker:
        return CompactionWorker(
            self.another_service(),
            runner or self.runner,
            places=places,
            clock=self.clock,
            ids=SeededIds(seed),
            meters=CompactionMeters(CollectorRegistry()),
        )

    async def put(self, branch: str = "main", **objects: str) -> None:
        for path, content in objects.items():
            await self.wired.catalog.objects.upload("lake", branch, path, content.encode())

    async def delete(self, *paths: str, branch: str = "main") -> None:
        await self.wired.catalog.objects.delete("lake", branch, paths)

    async def commit(self, branch: str = "main") -> str:
        return (await self.wired.catalog.commits.commit("lake", branch, COMMIT)).id

    async def seal(self, branch: str = "main") -> None:
        """Close the staging token: one more layer."""
        await self.wired.engine.parts.branches.update(
            self.repo,
            BranchName(branch),
            lambda current, _now: seal(current),
            landed=lambda current: current.staging_token is None,
        )

    async def branch(self, name: str = "main") -> Branch:
        return (await self.wired.engine.parts.branches.get(self.repo, BranchName(name))).value

    async def schedule(self) -> Schedule:
        return (await self.service.jobs.read(self.repo)).value

    async def view(self, ref: str = "main") -> dict[str, str]:
        """Return path and checksum of everything that a ref shows."""
        page = await self.wired.catalog.objects.list("lake", ref, amount=1000)
        assert not page.has_more
        rows = page.rows
        return dict(zip(rows.column("key").to_pylist(), rows.column("checksum").to_pylist(), strict=True))

    async def diff(self, branch: str = "main") -> list[tuple[str, str]]:
        """Return what is uncommitted: path and how it changed."""
        rows = (await self.wired.catalog.diffs.uncommitted("lake", branch, DiffQuery(amount=1000))).rows
        return list(zip(rows.column("key").to_pylist(), rows.column("type").to_pylist(), strict=True))

    async def compact(self, *, rounds: int = 10) -> None:
        """Poll and work, one job at a time, until there is nothing to do."""
        reports: list[Report] = []
        for _ in range(rounds):
            answer = await self.poll(reports)
            reports = [report for each in answer.refused.values() for report in each]
            for given in answer.assigned:
                made = await self.runner.run(given.repo, given.job)
                status = await self.service.install(given.repo, given.job, made.output)
                reports.append(Report(job=given.job.id, token=given.job.token, status=status))
            if not reports:
                return
        raise AssertionError("compaction never ends")

    async def poll(self, reports: list[Report] | None = None, *, free: int = 1) -> Answer:
        return await self.service.poll("w", free=free, reports={self.repo.uid: reports or []})


@asynccontextmanager
async def open_shell(*, limits: CompactionLimits = LIMITS) -> AsyncIterator[Shell]:
    """Yield an engine on a new repository."""
    clock, faults = HandClock(), Faults()
    faulty = FaultyKV(MemoryKV(clock=clock), plan=faults, clock=clock)
    async with open_wired(
        faulty,
        clock=clock,
        ids=SeededIds(7),
        cut_rule=CutRule(entries_expected=3, entries_max=8),
        compaction_limits=limits,
    ) as (wired, _):
        repo = await wired.catalog.repositories.create("lake", "mem://lake")
        yield Shell(wired, repo, clock, faults)
