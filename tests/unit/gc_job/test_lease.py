"""A lease is kept alive beside the work, and whoever lost it stops."""

import asyncio

import pytest

from lakebed.errors import ErrorKind, FencedError, UnavailableError
from lakebed.spark.gc.lease import Lease, held
from tests.unit.gc_job.lake import Lake, ManualClock


class Beats(ManualClock):
    """A clock on which so many sleeps end, and no more."""

    def __init__(self, beats: int) -> None:
        super().__init__()
        self.beats = beats
        self.slept: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        if len(self.slept) > self.beats:
            await asyncio.get_running_loop().create_future()


async def beaten(lake: Lake, beats: int) -> tuple[Lease, Beats]:
    clock = Beats(beats)
    lease = Lease(lake, await lake.begin("mark", grace_seconds=0.0), clock)
    heartbeat = asyncio.create_task(lease.beat())
    while len(clock.slept) <= beats and not heartbeat.done():
        await asyncio.sleep(0)
    heartbeat.cancel()
    return lease, clock


async def test_it_is_renewed_three_times_in_its_life():
    lake = Lake()
    _, clock = await beaten(lake, 3)

    assert lake.calls.count("renew") == 3
    assert clock.slept[0] == 20.0


async def test_a_server_that_does_not_answer_is_asked_again(monkeypatch: pytest.MonkeyPatch):
    lake = Lake()
    answers = []

    async def silent(_started: object) -> int:
        answers.append(1)
        if len(answers) < 3:
            raise UnavailableError(ErrorKind.STORE_UNAVAILABLE, "no")
        return 0

    monkeypatch.setattr(lake, "renew", silent)
    lease, _ = await beaten(lake, 4)

    assert await lease.check() == 0


async def test_whoever_lost_it_stops_without_asking_again():
    lake = Lake()
    started = await lake.begin("mark", grace_seconds=0.0)
    lease = Lease(lake, started, Beats(1))
    lake.lease = "another"
    await lease.beat()
    lake.lease = started.run

    with pytest.raises(FencedError):
        await lease.check()


async def test_an_error_of_the_work_is_what_the_caller_sees():
    lake = Lake()
    started = await lake.begin("mark", grace_seconds=0.0)

    async def work() -> None:
        async with held(lake, started, lake.clock):
            lake.lease = "another"
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await work()
