"""Random histories: whatever users do between and during runs, no run deletes what a model in plain Python calls live.

`Lake` holds every deletion against the model when it happens, and `check` finds what was referred to again after it was
deleted. At the end two clean runs a grace apart leave exactly what is reachable.
"""

import asyncio
from random import Random  # noqa: TID251  seeded by each test

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.gc_job.lake import DAY, HOUR, Lake

from lakebed.errors import ErrorKind, PreconditionError
from lakebed.spark.gc.decide import Options
from lakebed.spark.gc.protocol import mark, restore, sweep

MIN_AGE = DAY
STEPS = 45
PATHS = ["a/1", "a/2", "b/1", "b/2", "c/1"]
NAMES = ["main", "dev", "new", "old"]


class History:
    """One history of a lake, by chance."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.lake = Lake(random.randrange(2**32))
        self.inflight: list[tuple[str, str]] = []
        self.links: list[str] = []
        self.grace = random.choice([0.0, 3 * HOUR, DAY])
        self.lake.rules = random.choice([None, 0.0, DAY, 4 * DAY])
        self.runs = 0

    def options(self, *, clean: bool = False) -> Options:
        quarantine = self.random.choice([None, None, 1.0])
        return Options(
            min_age_seconds=MIN_AGE,
            grace_seconds=self.grace,
            clean=clean,
            allow_large=True,
            quarantine_days=quarantine,
        )

    def users(self) -> None:
        """Let a user do something."""
        random, lake = self.random, self.lake
        branch, path = random.choice(sorted(lake.branches)), random.choice(PATHS)
        match random.randrange(13):
            case 0 | 1 | 2:
                lake.upload(branch, path, slow=random.choice([0.0, 0.0, 30.0, 1.5 * DAY]))
            case 3:
                slow = random.choice([0.0, 1.5 * DAY])
                self.inflight.append((lake.put(lake.address(slow=slow)), path))
            case 4:
                self.links.append(lake.issue_link())
            case 5 if self.links:
                address = self.links.pop(random.randrange(len(self.links)))
                if random.random() < 0.8:
                    lake.put(address)
                    lake.link(branch, path, address)
            case 6 if lake.branches[branch].staged:
                lake.unstage(branch, random.choice(sorted(lake.branches[branch].staged)))
            case 7 | 8 if lake.branches[branch].staged:
                lake.commit(branch)
            case 9:
                lake.copy(random.choice(sorted(lake.branches)), path, branch, random.choice(PATHS))
            case 10:
                name = random.choice(NAMES[1:])
                if name in lake.branches:
                    lake.delete_branch(name)
                else:
                    lake.create_branch(name, random.choice(sorted(lake.commits)))
            case 11:
                lake.tags.pop("t", None)
                if random.random() < 0.5:
                    lake.tag("t", random.choice(sorted(lake.commits)))
            case 12:
                lake.merge(random.choice(sorted(lake.branches)), branch)

    def finish_uploads(self) -> None:
        for address, path in self.inflight:
            self.lake.stage("main", path, address)
        self.inflight = []

    def wait(self, seconds: float) -> None:
        if seconds > HOUR:
            self.finish_uploads()
        self.lake.clock.at += seconds

    async def meanwhile(self, _call: str) -> None:
        if self.random.random() < 0.4:
            self.users()
            self.lake.clock.at += self.random.choice([0.0, 1.0, 20.0])

    async def collect(self, *, clean: bool = False) -> None:
        self.lake.between = self.meanwhile
        try:
            await mark(self.lake.world(), self.options(clean=clean))
            if self.random.random() < 0.7:
                await sweep(self.lake.world(), self.options())
            if self.random.random() < 0.1 and self.lake.marks:
                await self._sweep_or_restore()
            self.runs += 1
        except PreconditionError as error:
            if error.kind is not ErrorKind.GC_UNSAFE:
                raise
        finally:
            self.lake.between = None

    async def _sweep_or_restore(self) -> None:
        run = self.random.choice(self.lake.marks).run
        if f"_lakebed/gc/quarantine/{run}.json" in self.lake.store.objects:
            await restore(self.lake.world(), run)
        else:
            await sweep(self.lake.world(), self.options(), run)

    async def step(self) -> None:
        match self.random.randrange(10):
            case 0 | 1 | 2 | 3 | 4:
                self.users()
            case 5 | 6:
                self.wait(self.random.choice([1.0, HOUR, 13 * HOUR, 26 * HOUR, 50 * HOUR]))
            case _:
                await self.collect(clean=self.random.random() < 0.15)
        self.lake.check()

    async def end(self) -> None:
        """Nobody does anything any more, and what is due is over."""
        lake = self.lake
        self.wait(30 * DAY)
        usual = Options(min_age_seconds=MIN_AGE, grace_seconds=self.grace, clean=True, allow_large=True)
        await mark(lake.world(), usual)
        self.wait(self.grace + 1)
        await mark(lake.world(), usual)
        await sweep(lake.world(), usual)
        lake.check()
        assert lake.data() == lake.live() & lake.data(), "garbage is left"
        assert lake.files() == lake.live_files(), "unused files are left"


async def play(random: Random) -> None:
    history = History(random)
    for _ in range(STEPS):
        await history.step()
    await history.end()


@settings(max_examples=10, deadline=None)
@given(st.integers(min_value=0, max_value=2**32))
def test_no_run_deletes_what_is_live_and_two_clean_ones_leave_nothing_else(seed: int):
    asyncio.run(play(Random(seed)))


@pytest.mark.parametrize("seed", range(6))
def test_the_same_on_histories_that_never_change(seed: int):
    asyncio.run(play(Random(seed)))
