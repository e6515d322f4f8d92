"""A round of maintenance costs what there is to do, not what there is."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import pytest

from lakebed.env.clock import Instant, after
from lakebed.env.ids import SeededIds
from lakebed.errors import ErrorKind, UnavailableError
from lakebed.format.part_uploads import encode_part_upload
from lakebed.format.records import encode_branch, encode_tag
from lakebed.kv.drivers.memory import MemoryKV
from lakebed.kv.port import Expect, Page, Row
from lakebed.limits import (
    GRACE_SECONDS,
    MAINTENANCE_PASS_SECONDS,
    MAINTENANCE_REST_SECONDS_MAX,
    MAINTENANCE_TURN_SECONDS,
    MAINTENANCE_VISITS,
    NAMESPACE_VISITS,
)
from lakebed.model.branch import DeletedBranch
from lakebed.model.commits import DeletedTag
from lakebed.model.ids import BranchName, Nonce, Path, TagName
from lakebed.model.part_uploads import PartUpload
from lakebed.model.repository import Repository
from lakebed.refs.branches import branch_names, new_branch
from lakebed.refs.keys import TODO_PARTITION, UPLOADS_PREFIX, branch_key, tag_key
from lakebed.server.maintenance import Maintenance
from lakebed.server.wiring import Wired
from lakebed.testing.lake import open_wired

START = Instant(1_800_000_000_000_000)


@dataclass
class MovedClock:
    at: Instant = START

    def now(self) -> Instant:
        return self.at

    def monotonic(self) -> float:
        return self.at / 1e6

    async def sleep(self, seconds: float) -> None:
        await asyncio.Event().wait()


class CountingKV(MemoryKV):
    """Counts calls and the rows that they return, by what they read or write."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.calls: Counter[str] = Counter()
        self.rows = 0

    async def get(self, partition: str, key: bytes) -> Any:
        self.calls["get"] += 1
        self.rows += 1
        return await super().get(partition, key)

    async def get_many(self, lookups: Any) -> Any:
        self.calls["get_many"] += 1
        self.rows += len(lookups)
        return await super().get_many(lookups)

    async def swap(self, *args: Any, **kwargs: Any) -> Any:
        self.calls["swap"] += 1
        return await super().swap(*args, **kwargs)

    async def scan(self, partition: str, **kwargs: Any) -> AsyncIterator[Page]:
        self.calls["scan"] += 1
        async for page in super().scan(partition, **kwargs):
            self.rows += len(page)
            yield page


async def fill(wired: Wired, kv: MemoryKV, *, branches: int, uploads: int) -> Repository:
    """A repository with so many idle branches, nine times as many tombstones of an older lakebed, and uploads."""
    repo: Repository = await wired.catalog.repositories.create("lake", "mem://lake")
    head = (await wired.engine.parts.branches.get(repo, repo.default_branch)).value.commit_id
    for number in range(branches):
        branch = new_branch(BranchName(f"b{number:06d}"), head, Nonce(f"n{number}"), now=START)
        await kv.swap(
            repo.partition,
            branch_key(branch.name),
            encode_branch(branch),
            expected=Expect.ANY,
            names=branch_names(branch),
        )
    tombstones = [
        DeletedBranch(
            name=BranchName(f"d{n:06d}"), next_seq=1, last_token=0, min_era=0, retired=(), updated_at=START
        )
        for n in range(9 * branches)
    ]
    await kv.set_rows(
        repo.partition, [Row(branch_key(each.name), encode_branch(each)) for each in tombstones]
    )
    tags = [TagName(f"t{n}") for n in range(branches)]
    await kv.set_rows(repo.partition, [Row(tag_key(tag), encode_tag(DeletedTag(name=tag))) for tag in tags])
    await kv.set_rows(repo.partition, [upload_row(number) for number in range(uploads)])
    return repo


def upload_row(number: int) -> Row:
    upload = PartUpload(
        id=f"w{number:052d}",
        branch=BranchName("main"),
        path=Path("a"),
        address=f"data/s/{number}",
        store_upload="u",
        initiator="",
        created_at=START,
        content_type="",
        metadata={},
    )
    return Row(UPLOADS_PREFIX + upload.id.encode(), encode_part_upload(upload))


async def rounds(maintenance: Maintenance, clock: MovedClock, count: int) -> None:
    for _ in range(count):
        clock.at = after(clock.at, 10.0)
        assert await maintenance.once()


async def settle(maintenance: Maintenance, clock: MovedClock) -> None:
    """Let the first pass go by: it enters what an older lakebed left, and the rounds after it work it off."""
    for _ in range(4):
        await rounds(maintenance, clock, 4)
        clock.at = after(clock.at, GRACE_SECONDS + 1)


@dataclass
class Cost:
    calls: Counter[str]
    rows: int
    listed: int
    """Rows that a listing of branches reads which shows ten."""


async def cost_of_a_round(*, branches: int, uploads: int, repositories: int) -> Cost:
    clock = MovedClock()
    kv = CountingKV(clock=clock)
    async with open_wired(kv, clock=clock) as (wired, _):
        repo = await fill(wired, kv, branches=branches, uploads=uploads)
        for number in range(repositories):
            await wired.catalog.repositories.create(f"repo{number:03d}", f"mem://repo{number}")
            await wired.catalog.repositories.create(f"gone{number:03d}", f"mem://gone{number}")
            await wired.catalog.repositories.delete(f"gone{number:03d}")
        maintenance = Maintenance(wired, clock=clock, ids=SeededIds(1))
        await settle(maintenance, clock)
        kv.rows = 0
        await wired.engine.parts.branches.list(repo, amount=4)
        listed = kv.rows
        for _ in range(7):  # Until the watch over namespaces has gone round, too.
            kv.rows, kv.calls = 0, Counter()
            await rounds(maintenance, clock, 1)
            if kv.calls["scan"] == 2:
                break
        assert [page async for page in kv.scan(TODO_PARTITION)] == []
        return Cost(kv.calls, kv.rows, listed)


async def test_an_idle_round_costs_the_same_however_much_there_is() -> None:
    small = await cost_of_a_round(branches=5, uploads=5, repositories=1)
    large = await cost_of_a_round(branches=60, uploads=400, repositories=25)
    assert small == large
    assert large.rows < 10
    assert large.listed <= 5, "a listing costs what it shows"


async def test_a_part_of_a_pass_costs_the_same_however_many_repositories_there_are() -> None:
    costs = []
    for repositories in (MAINTENANCE_VISITS + 5, 3 * MAINTENANCE_VISITS):
        clock = MovedClock()
        kv = CountingKV(clock=clock)
        async with open_wired(kv, clock=clock) as (wired, _):
            for number in range(repositories):
                await wired.catalog.repositories.create(f"repo{number:03d}", f"mem://repo{number}")
            maintenance = Maintenance(wired, clock=clock, ids=SeededIds(1))
            await settle(maintenance, clock)
            clock.at = after(clock.at, MAINTENANCE_PASS_SECONDS)
            kv.rows, kv.calls = 0, Counter()
            await rounds(maintenance, clock, 1)
            costs.append(kv.calls)
    assert costs[0] == costs[1]
    assert NAMESPACE_VISITS <= MAINTENANCE_VISITS


async def test_one_process_has_the_turn_and_another_takes_over_when_it_stops_or_dies() -> None:
    clock = MovedClock()
    async with open_wired(clock=clock) as (wired, _):
        first, second, third = (Maintenance(wired, clock=clock, ids=SeededIds(n)) for n in range(3))
        assert await first.once()
        assert not await second.once()
        clock.at = after(clock.at, 10.0)
        assert await first.once()
        clock.at = after(clock.at, MAINTENANCE_TURN_SECONDS)
        assert not await second.once(), "it may be in the middle of a long round"
        clock.at = after(clock.at, 21.0)
        assert await second.once(), "it is taken for dead"
        assert not await first.once()
        running = asyncio.create_task(second.run())
        await asyncio.sleep(0)
        running.cancel()
        await asyncio.wait([running])
        assert await third.once(), "it has let go"


async def test_a_turn_whose_end_is_too_far_away_is_not_waited_for() -> None:
    clock = MovedClock()
    async with open_wired(clock=clock) as (wired, _):
        first, second = (Maintenance(wired, clock=clock, ids=SeededIds(n)) for n in range(2))
        clock.at = after(clock.at, 10 * 365 * 86400.0)
        assert await first.once()
        clock.at = START
        assert await second.once()


@pytest.mark.parametrize(
    "error", [UnavailableError(ErrorKind.STORE_UNAVAILABLE, "unreachable"), KeyError("a bug"), TimeoutError()]
)
async def test_one_step_that_fails_in_one_repository_stops_nothing_else(error: Exception) -> None:
    clock = MovedClock()
    heard: list[str] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _loop, context: heard.append(context["message"]))
    async with open_wired(clock=clock) as (wired, _):
        for name in ("a", "b", "c"):
            await wired.catalog.repositories.create(f"{name}-repo", f"mem://{name}")
        maintenance = Maintenance(wired, clock=clock, ids=SeededIds(1))
        swept: list[tuple[str, str]] = []

        def failing(step: str) -> Callable[[Repository], Awaitable[int]]:
            async def sweep(repo: Repository) -> int:
                swept.append((step, repo.name))
                if repo.name == "a-repo" or step == "links":
                    raise error
                return 0

            return sweep

        maintenance.sweeps = {step: failing(step) for step in maintenance.sweeps}
        await rounds(maintenance, clock, 1)
        assert sorted(swept) == sorted(
            (step, f"{name}-repo") for step in maintenance.sweeps for name in ("a", "b", "c")
        )
        assert bool(heard) == isinstance(error, KeyError), "a bug is reported with its traceback"


async def test_an_entry_that_fails_is_left_alone_for_longer_each_time() -> None:
    clock = MovedClock()
    kv = CountingKV(clock=clock)
    async with open_wired(kv, clock=clock) as (wired, _):
        await wired.catalog.repositories.create("lake", "mem://lake")
        await wired.catalog.repositories.delete("lake")
        clock.at = after(clock.at, GRACE_SECONDS + 1)
        tries = 0

        async def unreachable(_key: bytes, _entry: Any) -> bool:
            nonlocal tries
            tries += 1
            raise UnavailableError(ErrorKind.STORE_UNAVAILABLE, "unreachable")

        wired.cleaner._clean_repository = unreachable  # type: ignore[method-assign]
        maintenance = Maintenance(wired, clock=clock, ids=SeededIds(1))
        await rounds(maintenance, clock, 360)
        assert 5 <= tries <= 12, "in an hour"
        clock.at = after(clock.at, MAINTENANCE_REST_SECONDS_MAX)
        before = tries
        await rounds(maintenance, clock, 1)
        assert tries == before + 1
