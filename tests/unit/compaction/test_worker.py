"""The worker: jobs done by themselves, leases lost, failures reported, jobs given back."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
from prometheus_client import CollectorRegistry
from tests.unit.compaction.shell import LIMITS, MAIN, Shell, open_shell, settle
from tests.unit.compaction.test_service import staged

from lakebed.committed.segments import SegmentFiles
from lakebed.compaction.jobs import JobRunner, Made
from lakebed.compaction.limits import CompactionLimits
from lakebed.compaction.meters import CompactionMeters
from lakebed.compaction.worker import CompactionWorker
from lakebed.env.clock import Instant
from lakebed.env.ids import SeededIds
from lakebed.errors import CorruptError, ErrorKind, UnavailableError
from lakebed.format.blocks import change_block
from lakebed.kv.wrappers.faults import Call, Fault, LostRequest, Operation
from lakebed.limits import (
    COMPACTION_IDLE_SECONDS_MAX,
    COMPACTION_IDLE_SHARE,
    COMPACTION_POLL_SECONDS,
    COMPACTION_POLL_SHARE,
)
from lakebed.model.compaction import Job, JobKind, JobState, Schedule, source_of
from lakebed.model.entries import Entry
from lakebed.model.ids import BranchName, Path
from lakebed.model.layers import SegmentLayer
from lakebed.model.repository import Repository
from lakebed.model.segments import segment_key
from lakebed.objects.port import PutMode
from lakebed.staging.record import seal


@pytest.fixture
async def shell() -> AsyncIterator[Shell]:
    async with open_shell() as opened:
        yield opened


class SlowRunner(JobRunner):
    """Begins, and goes on only when it is told to."""

    def __init__(self, shell: Shell) -> None:
        self._inner = shell.runner
        self.begun: list[Job] = []
        self.may_go_on = asyncio.Event()

    async def run(self, repo: Repository, job: Job) -> Made:
        self.begun.append(job)
        await self.may_go_on.wait()
        return await self._inner.run(repo, job)


class FailingRunner(JobRunner):
    """Fails as often as it is told to, with an error of ours or with a mistake of ours."""

    def __init__(self, shell: Shell, *errors: Exception) -> None:
        self._inner = shell.runner
        self._errors = list(errors)

    @property
    def left(self) -> int:
        return len(self._errors)

    def heal(self) -> None:
        """Fail no more."""
        self._errors.clear()

    async def run(self, repo: Repository, job: Job) -> Made:
        if self._errors:
            raise self._errors.pop(0)
        return await self._inner.run(repo, job)


class OneRepoFails(JobRunner):
    """Finds the storage of `lake` full."""

    def __init__(self, shell: Shell) -> None:
        self._inner = shell.runner
        self.tries = 0

    async def run(self, repo: Repository, job: Job) -> Made:
        if repo.name == "lake":
            self.tries += 1
            raise UnavailableError(ErrorKind.DISK_FULL, "the disk is full")
        return await self._inner.run(repo, job)


async def test_a_worker_compacts_by_itself_and_ends_when_told(shell: Shell) -> None:
    await staged(shell)
    view = await shell.view()
    worker = shell.worker()
    running = asyncio.create_task(worker.run())
    await shell.clock.advance(5)
    assert (await shell.branch()).sealed == ()
    assert await shell.view() == view
    worker.stop()
    await asyncio.wait_for(running, 60)
    assert (await shell.schedule()).jobs == ()


async def test_heartbeats_keep_a_slow_job_longer_than_its_first_lease(shell: Shell) -> None:
    await staged(shell)
    slow = SlowRunner(shell)
    worker = shell.worker(runner=slow)
    running = asyncio.create_task(worker.run())
    await shell.clock.advance(4 * LIMITS.lease_seconds)
    assert len(slow.begun) == 1
    slow.may_go_on.set()
    await shell.clock.advance(5)
    assert (await shell.branch()).sealed == ()
    worker.stop()
    await asyncio.wait_for(running, 60)


async def test_a_worker_whose_heartbeats_do_not_arrive_stops_and_another_takes_the_job(shell: Shell) -> None:
    await staged(shell)
    slow, quick = SlowRunner(shell), shell.worker(seed=2)
    worker = shell.worker(runner=slow)
    shell.faults.plan = _no_heartbeats
    await worker.round()
    await settle()
    assert len(slow.begun) == 1
    await shell.clock.advance(LIMITS.lease_seconds + 1)
    await worker.idle()
    shell.faults.plan = lambda _call: None
    await quick.round()
    await quick.idle()
    slow.may_go_on.set()
    assert (await shell.branch()).sealed == ()


async def test_a_worker_is_told_to_stop_what_somebody_else_has(shell: Shell) -> None:
    await staged(shell)
    slow = SlowRunner(shell)
    worker = shell.worker(runner=slow)
    await worker.round()
    await settle()
    schedule = await shell.schedule()
    (job,) = schedule.jobs
    await shell.service.jobs.change(shell.repo, _reassigned)
    await worker.round()
    await worker.idle()
    (after,) = (await shell.schedule()).jobs
    assert after.token > job.token


async def test_a_failed_job_is_tried_again(shell: Shell) -> None:
    await staged(shell)
    worker = shell.worker(
        runner=FailingRunner(
            shell, CorruptError(ErrorKind.UNREADABLE, "broken"), ZeroDivisionError("a mistake")
        )
    )
    for _ in range(8):
        await worker.round()
        await worker.idle()
    assert (await shell.branch()).sealed == ()


async def test_a_job_that_always_fails_is_parked_with_its_error(shell: Shell) -> None:
    await shell.put(a="1")
    await shell.seal()
    worker = shell.worker(
        runner=FailingRunner(shell, *[CorruptError(ErrorKind.UNREADABLE, "broken") for _ in range(9)])
    )
    for _ in range(9):
        await worker.round()
        await worker.idle()
    (job,) = (await shell.schedule()).jobs
    assert job.state is JobState.PARKED
    assert job.error == "CorruptError: broken"
    assert await shell.view() != {}


async def test_a_worker_that_stops_gives_its_jobs_back(shell: Shell) -> None:
    await staged(shell)
    slow = SlowRunner(shell)
    worker = shell.worker(runner=slow)
    running = asyncio.create_task(worker.run())
    await settle()
    assert len(slow.begun) == 1
    worker.stop()
    await asyncio.wait_for(running, 60)
    (job,) = (await shell.schedule()).jobs
    assert (job.state, job.failures, job.silences) == (JobState.QUEUED, 0, 0)


async def test_the_heartbeats_of_ended_attempts_are_removed(shell: Shell) -> None:
    await staged(shell)
    worker = shell.worker()
    await worker.round()
    await worker.idle()
    assert len(await shell.service.jobs.heartbeats(shell.repo)) == 1
    await worker.round()
    await worker.round()
    assert await shell.service.jobs.heartbeats(shell.repo) == {}


def _no_heartbeats(call: Call) -> Fault | None:
    is_beat = call.operation is Operation.SET_ROWS and call.partition.startswith("compaction-")
    return LostRequest() if is_beat else None


def _reassigned(schedule: Schedule, update: str) -> Schedule:
    """Give the only job to another worker."""
    token = schedule.last_token + 1
    jobs = tuple(replace(job, token=token, worker="another") for job in schedule.jobs)
    return replace(schedule, jobs=jobs, last_token=token, version=schedule.version + 1, update=update)


async def test_a_store_that_fails_postpones_jobs_and_never_parks_them(shell: Shell) -> None:
    await staged(shell)
    full = [UnavailableError(ErrorKind.DISK_FULL, "the disk is full") for _ in range(20)]
    failing = FailingRunner(shell, *full)
    worker = shell.worker(runner=failing)
    running = asyncio.create_task(worker.run())
    await shell.clock.advance(60)
    (job,) = (await shell.schedule()).jobs
    assert (job.state, job.failures, job.error) == (JobState.QUEUED, 0, "the disk is full")
    # Ever more rarely: 1, 2, 4, 8, 16 and 30 seconds, give or take a jitter.
    assert len(full) - failing.left <= 10
    failing.heal()
    await shell.clock.advance(60)
    assert (await shell.branch()).sealed == ()
    worker.stop()
    await asyncio.wait_for(running, 60)


async def test_a_repository_whose_store_fails_does_not_hold_up_another(shell: Shell) -> None:
    await staged(shell)
    other = await shell.wired.catalog.repositories.create("other", "mem://other")
    await shell.wired.catalog.objects.upload("other", "main", "a", b"x")
    name = BranchName("main")
    branches = shell.wired.engine.parts.branches
    await branches.update(other, name, lambda b, _: seal(b), landed=lambda b: b.staging_token is None)
    failing = OneRepoFails(shell)
    worker = shell.worker(runner=failing, places=1)
    running = asyncio.create_task(worker.run())
    await shell.clock.advance(10)
    assert (await branches.get(other, name)).value.sealed == ()
    assert len((await shell.branch()).sealed) == 2
    assert failing.tries <= 6
    worker.stop()
    await asyncio.wait_for(running, 60)


async def test_a_place_that_becomes_free_during_a_poll_is_filled_at_once(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    await staged(shell)
    slow = SlowRunner(shell)
    worker = shell.worker(runner=slow, places=1)
    inner, ends = worker.round, list[float]()

    async def round_and_note() -> None:
        await inner()
        if len(ends) == 1:
            # The job ends while the second poll is on its way.
            slow.may_go_on.set()
            await worker.idle()
        ends.append(shell.clock.monotonic())

    monkeypatch.setattr(worker, "round", round_and_note)
    running = asyncio.create_task(worker.run())
    await shell.clock.advance(4)
    assert ends[1] > ends[0]
    assert ends[2] == ends[1]
    worker.stop()
    await asyncio.wait_for(running, 60)


@pytest.mark.parametrize("place", [0, 4, 9])
async def test_a_damaged_segment_among_others_is_found_parked_and_shown(
    place: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worker of a branch with ten segments, of which one cannot be read, comes to rest."""

    async def keep_nothing(*_args: object) -> None:
        """Whoever reads reads the file."""

    monkeypatch.setattr(SegmentFiles, "_keep", keep_nothing)
    async with open_shell(limits=replace(CompactionLimits(), l2_layers=20)) as shell:
        for number in range(10):
            entry = Entry(path=Path(f"p{number}"), address="a", checksum="c", size_bytes=1, mtime=Instant(1))
            await shell.wired.engine.parts.staging.hand_in(
                shell.repo, MAIN, change_block([entry]), call=f"call {number}"
            )
        damaged = (await shell.branch()).sealed[place]
        assert isinstance(damaged, SegmentLayer)
        await (await shell.wired.engine.store_of(shell.repo)).put(
            segment_key(damaged.id), b"damaged", when=PutMode.OVERWRITE
        )
        registry = CollectorRegistry()
        worker = CompactionWorker(
            shell.another_service(),
            shell.runner,
            places=2,
            clock=shell.clock,
            ids=SeededIds(1),
            meters=CompactionMeters(registry),
        )
        running = asyncio.create_task(worker.run())

        failed: list[float] = []
        for _ in range(20):
            await shell.clock.advance(30)
            failed.append(_failed(registry))
        worker.stop()
        await running

        (parked,) = (await shell.schedule()).jobs
        assert (parked.state, parked.spec.sources) == (JobState.PARKED, (source_of(damaged),))
        assert parked.error
        assert registry.get_sample_value("lakebed_compaction_parked") == 1
        assert failed[-1] == failed[-10], "nothing is tried any more"
        assert failed[-1] <= 2 * (LIMITS.failures_max + 8)
        assert len((await shell.branch()).sealed) <= 3, "the layers around it are merged"


def _failed(registry: CollectorRegistry) -> float:
    kinds = [
        registry.get_sample_value("lakebed_compaction_jobs_total", {"kind": kind, "outcome": "failed"})
        for kind in JobKind
    ]
    return sum(count or 0.0 for count in kinds)


async def test_a_worker_that_finds_nothing_to_do_polls_for_a_hundredth_of_its_time(shell: Shell) -> None:
    worker = shell.worker()
    await worker.round()
    await worker.round()
    assert worker.poll_seconds(0.001) == COMPACTION_POLL_SECONDS
    assert worker.poll_seconds(0.2) == COMPACTION_IDLE_SHARE * 0.2
    assert worker.poll_seconds(100.0) == COMPACTION_IDLE_SECONDS_MAX

    await shell.put(a="1")
    await shell.wired.engine.parts.branches.update(
        shell.repo, MAIN, lambda branch, _now: seal(branch), landed=lambda branch: bool(branch.sealed)
    )
    await worker.round()
    assert worker.poll_seconds(0.2) == COMPACTION_POLL_SHARE * 0.2, "a branch has got a layer"
