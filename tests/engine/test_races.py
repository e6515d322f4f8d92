"""Races that are won by luck elsewhere, here at exactly one moment, on a store that lets another go first."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace

import pytest
from msgspec import structs

from lakebed.catalog.diffs import DiffQuery
from lakebed.env.clock import Instant
from lakebed.errors import ErrorKind, InvalidInputError
from lakebed.kv.drivers.memory import MemoryKV
from lakebed.kv.port import Page
from lakebed.model.entries import Entry
from lakebed.model.ids import BranchName, Path
from lakebed.refs.keys import COMMITS_PREFIX
from lakebed.refs.log import LogQuery
from lakebed.staging.record import with_open_token
from lakebed.staging.writer import new_token
from lakebed.testing.lake import COMMIT, Lake, open_lake

EMPTY = replace(COMMIT, allow_empty=True, date=1)


class PoliteKV(MemoryKV):
    """Lets somebody else go first: `before_scan` runs before the next scan of staged rows, `after_commit` after
    the next record of a commit was written."""

    def __init__(self) -> None:
        super().__init__()
        self.before_scan: Callable[[], Awaitable[object]] | None = None
        self.after_commit: Callable[[], Awaitable[object]] | None = None

    async def scan(self, partition: str, **kwargs) -> AsyncIterator[Page]:
        other, self.before_scan = (self.before_scan, None) if ":" in partition else (None, self.before_scan)
        if other is not None:
            await other()
        async for page in super().scan(partition, **kwargs):
            yield page

    async def swap(self, partition: str, key: bytes, value: bytes, **kwargs):
        version = await super().swap(partition, key, value, **kwargs)
        if key.startswith(COMMITS_PREFIX) and self.after_commit is not None:
            other, self.after_commit = self.after_commit, None
            await other()
        return version


@pytest.fixture
def kv() -> PoliteKV:
    return PoliteKV()


@pytest.fixture
async def lake(kv: PoliteKV) -> AsyncIterator[Lake]:
    async with open_lake(kv) as lake:
        yield lake


async def open_a_token_nobody_writes_to(lake: Lake) -> None:
    token = new_token(lake.repo, BranchName("main"), lake.engine.parts.ids)
    await lake.engine.parts.branches.update(
        lake.repo, BranchName("main"), lambda b, _: with_open_token(b, token), landed=lambda _: False
    )


async def test_a_commit_whose_layers_another_one_has_committed_starts_over(lake: Lake, kv: PoliteKV) -> None:
    await lake.put("main", a="1")
    await lake.catalog.commits.commit("lake", "main", COMMIT)
    await open_a_token_nobody_writes_to(lake)
    kv.before_scan = lambda: lake.catalog.commits.commit("lake", "main", EMPTY)

    commit = await lake.catalog.commits.commit("lake", "main", EMPTY)
    assert (await lake.catalog.commits.get("lake", "main")).id == commit.id
    assert kv.before_scan is None


async def test_a_diff_whose_layers_were_committed_meanwhile_reads_the_branch_again(
    lake: Lake, kv: PoliteKV
) -> None:
    await open_a_token_nobody_writes_to(lake)
    for show in (
        lambda: lake.catalog.diffs.uncommitted("lake", "main", DiffQuery()),
        lambda: lake.catalog.diffs.diff("lake", "main", "main$", DiffQuery(), two_dot=True),
    ):
        await open_a_token_nobody_writes_to(lake)
        kv.before_scan = lambda: lake.catalog.commits.commit("lake", "main", EMPTY)
        page = await show()
        assert page.rows.num_rows == 0
        assert kv.before_scan is None


async def test_a_reset_whose_layers_were_committed_meanwhile_starts_over(lake: Lake, kv: PoliteKV) -> None:
    await open_a_token_nobody_writes_to(lake)
    kv.before_scan = lambda: lake.catalog.commits.commit("lake", "main", EMPTY)
    await lake.catalog.branches.reset_prefix("lake", "main", "a")
    assert kv.before_scan is None


async def test_a_commit_that_starts_over_on_the_same_commit_is_made_once(lake: Lake, kv: PoliteKV) -> None:
    await lake.catalog.objects.delete("lake", "main", ["never-there"])

    async def find_nothing_to_commit() -> None:
        # Takes the layer away, since it changes nothing: the other commit has to start over on the same HEAD.
        with pytest.raises(InvalidInputError) as caught:
            await lake.catalog.commits.commit("lake", "main", COMMIT)
        assert caught.value.kind is ErrorKind.NO_CHANGES

    kv.after_commit = find_nothing_to_commit
    commit = await lake.catalog.commits.commit("lake", "main", EMPTY)
    assert kv.after_commit is None
    log = (await lake.catalog.commits.log("lake", "main", LogQuery())).results
    assert [each.id for each in log if each.parents] == [commit.id]


async def test_who_lost_a_race_goes_before_who_comes_later(lake: Lake, kv: PoliteKV) -> None:
    rivals: list[asyncio.Task[object]] = []

    async def let_a_rival_try() -> None:
        kv.after_commit = None
        rivals.append(asyncio.create_task(lake.catalog.commits.commit("lake", "main", EMPTY)))
        for _ in range(500):  # All is in memory: whoever can finish has done so long before.
            await asyncio.sleep(0)
        kv.after_commit = let_a_rival_try

    kv.after_commit = let_a_rival_try
    await lake.catalog.commits.commit("lake", "main", EMPTY)
    kv.after_commit = None
    await asyncio.gather(*rivals)
    assert len(rivals) == 2, "it lost once, and then the next rival waited"


async def test_nonsense_in_one_write_does_not_fail_the_others_of_its_batch(lake: Lake) -> None:
    def entry(path: str, **changed) -> Entry:
        fine = Entry(path=Path(path), address="data/a/b", checksum="c", size_bytes=1, mtime=Instant(1))
        return structs.replace(fine, **changed)

    async def write(change: Entry) -> None:
        await lake.engine.parts.staging.write(lake.repo, BranchName("main"), [change])

    nonsense = {
        "n1": {"size_bytes": 2**70},
        "n2": {"content_type": "\ud800"},
        "n3": {"metadata": {"k": "\ud800"}},
    }
    changes = [entry("a"), *(entry(path, **bad) for path, bad in nonsense.items()), entry("b")]
    answers = await asyncio.gather(*map(write, changes), return_exceptions=True)

    assert [type(answer) for answer in answers] == [type(None), *[InvalidInputError] * 3, type(None)]
    page = await lake.catalog.objects.list("lake", "main")
    assert page.rows.column("key").to_pylist() == ["a", "b"]
    await write(entry("c"))
