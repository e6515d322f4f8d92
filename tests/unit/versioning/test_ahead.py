"""What refs in use show anew is at hand before somebody reads it; nothing else is fetched, and nothing is left running."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from pathlib import Path

import pytest

from lakebed.errors import ErrorKind, UnavailableError
from lakebed.format.blocks import change_block
from lakebed.format.metaranges import RangeInfo
from lakebed.kv.drivers.memory import MemoryKV
from lakebed.limits import READ_AHEAD_FILES_MAX, READ_AHEAD_SECONDS, READ_AHEAD_USE_SECONDS
from lakebed.model.entries import Tombstone
from lakebed.model.ids import BranchName, RangeId, parse_path
from lakebed.objects.drivers.memory import MemoryObjects
from lakebed.objects.port import ByteRange
from lakebed.objects.settings import StoreSettings
from lakebed.server.wiring import Wired
from lakebed.staging.appending import SegmentUse
from lakebed.testing.lake import COMMIT
from lakebed.testing.site import Site
from lakebed.versioning.ahead import fresh_ranges
from tests.unit.compaction.shell import settle
from tests.unit.leaping import LeapClock

MAIN = BranchName("main")


class Watched(MemoryObjects):
    """A store that tells which files of the engine were read, and can be away."""

    def __init__(self) -> None:
        super().__init__()
        self.read: list[str] = []
        self.is_away = False

    async def get(self, key: str, *, byte_range: ByteRange | None = None) -> bytes:
        if key.startswith("_lakebed/"):
            self.read.append(key)
            if self.is_away:
                raise UnavailableError(ErrorKind.STORE_UNAVAILABLE, "no answer")
        return await super().get(key, byte_range=byte_range)


class Two:
    """Two servers of one installation: one writes, the other reads."""

    def __init__(self, writer: Wired, reader: Wired, store: Watched, clock: LeapClock) -> None:
        self.writer, self.reader, self.store, self.clock = writer, reader, store, clock

    async def put(self, *paths: str) -> None:
        for path in paths:
            await self.writer.catalog.objects.upload("lake", "main", path, b"x")

    async def commit(self) -> None:
        await self.writer.catalog.commits.commit("lake", "main", COMMIT)

    async def listed(self, ref: str = "main") -> list[str]:
        page = await self.reader.catalog.objects.list("lake", ref, amount=1000)
        return page.rows.column("key").to_pylist()

    async def look(self) -> int:
        return await self.reader.read_ahead.once()

    def forget_reads(self) -> None:
        self.store.read.clear()


@pytest.fixture(params=list(SegmentUse))
async def two(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[Two]:
    """`main` has a commit, and the reader has listed it."""
    clock = LeapClock()
    store = Watched()
    site = Site(
        tmp_path, "mem://", StoreSettings(), kv=MemoryKV(clock=clock), staging_segments=request.param,
        in_memory={"mem://lake": store},
    )  # fmt: skip
    async with site.engine(clock=clock) as (_, writer), site.engine(clock=clock) as (_, reader):
        await writer.catalog.repositories.create("lake", "mem://lake")
        made = Two(writer, reader, store, clock)
        await made.put("a", "b")
        await made.commit()
        assert await made.listed() == ["a", "b"]
        await made.look()
        yield made


async def test_a_new_tree_of_a_branch_in_use_is_read_before_anyone_asks(two: Two) -> None:
    await two.put("c")
    await two.commit()

    assert await two.look() > 0
    two.forget_reads()
    assert await two.listed() == ["a", "b", "c"]
    assert two.store.read == []


async def test_new_segments_of_a_branch_in_use_are_read_before_anyone_asks(two: Two) -> None:
    await two.put("c", "d")

    await two.look()
    two.forget_reads()
    assert await two.listed() == ["a", "b", "c", "d"]
    assert two.store.read == []


async def test_what_was_there_when_it_was_last_looked_at_is_not_fetched(two: Two) -> None:
    two.forget_reads()
    assert await two.look() == 0
    assert two.store.read == []


async def test_a_branch_that_nobody_has_read_for_a_minute_is_left_alone(two: Two) -> None:
    two.clock.jump(READ_AHEAD_USE_SECONDS)
    await two.put("c")
    await two.commit()

    two.forget_reads()
    assert await two.look() == 0
    assert two.store.read == []


async def test_looking_ahead_is_no_use(two: Two) -> None:
    """Otherwise a branch that was read once would be in use for ever."""
    for number in range(3):
        await two.put(f"c{number}")
        await two.commit()
        await two.look()
        two.clock.jump(READ_AHEAD_USE_SECONDS * 0.6)
    two.forget_reads()
    await two.put("d")
    await two.commit()
    assert await two.look() == 0


async def test_a_branch_of_a_repository_that_was_created_again_or_is_gone_is_left_alone(two: Two) -> None:
    await two.writer.catalog.repositories.delete("lake")
    assert await two.look() == 0


async def test_a_store_that_does_not_answer_stops_nobody(two: Two) -> None:
    await two.put("c")
    two.store.is_away = True
    await two.look()
    two.store.is_away = False
    await two.commit()
    two.store.is_away = True
    await two.look()

    two.store.is_away = False
    assert await two.listed() == ["a", "b", "c"]


async def test_it_looks_again_and_again_until_it_is_ended(two: Two) -> None:
    running = asyncio.create_task(two.reader.read_ahead.run())
    await settle()
    await two.put("c")
    await two.commit()
    while not await _is_at_hand(two):
        await two.clock.advance(2 * READ_AHEAD_SECONDS)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert running.cancelled()


async def _is_at_hand(two: Two) -> bool:
    repo = await two.reader.engine.repo("lake")
    trees = await two.reader.engine.parts.trees_of(repo)
    branch = (await two.writer.engine.parts.branches.get(repo, MAIN)).value
    tree = await two.writer.engine.parts.base_tree(repo, branch)
    two.forget_reads()
    return all(trees.is_open(info) for info in await trees.ranges(tree))


def infos(*spans: str) -> list[RangeInfo]:
    return [
        RangeInfo(id=RangeId(span), hash="", min_key=span[0], max_key=span[1], count=1, bytes=1)
        for span in spans
    ]


def names(found: Iterable[RangeInfo]) -> list[str]:
    return [info.id for info in found]


def test_ranges_in_the_place_of_open_ones_come_first_and_those_kept_do_not_come() -> None:
    old = infos("ac", "df", "gi", "jl")
    new = infos("ac", "de", "ff", "gh", "im", "nz")

    def found(*opened: str) -> list[str]:
        return names(fresh_ranges(old, new, lambda info: info.id in opened))

    assert found() == ["de", "ff", "gh", "im", "nz"]
    assert found("gi") == ["gh", "im", "de", "ff", "nz"]
    assert found("jl") == ["im", "nz", "de", "ff", "gh"]
    assert found("ac") == found()
    assert names(fresh_ranges([], new, lambda _info: True)) == names(new)


async def test_no_more_files_are_read_at_once_than_a_reader_would_meet_first(two: Two) -> None:
    repo = await two.writer.engine.repo("lake")
    for number in range(READ_AHEAD_FILES_MAX + 4):
        rows = change_block([Tombstone(path=parse_path(f"c{number:02}"))])
        await two.writer.engine.parts.staging.hand_in(repo, MAIN, rows, call=str(number))
    assert await two.look() == READ_AHEAD_FILES_MAX
