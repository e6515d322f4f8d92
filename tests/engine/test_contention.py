"""Many writers and committers on one branch: nothing acknowledged is lost, and everyone gets on."""

import asyncio
from collections import Counter
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from lakebed.errors import ErrorKind, InvalidInputError
from lakebed.kv.drivers.lmdb import LmdbKV
from lakebed.objects.settings import StoreSettings
from lakebed.refs.log import LogQuery
from lakebed.testing.lake import COMMIT, Lake
from lakebed.testing.site import Site

COMMITTERS = 4
# What each committer is to get done. One that always loses is given up after so many turns of every writer.
COMMITS = 3
TURNS_MAX = 2_000


async def contend(lakes: list[Lake], *, writers: int) -> None:
    """Let `writers` write and four commit, spread over the engines, until every committer has had its turns.

    Then compare with what was acknowledged.
    """
    expected: dict[str, str] = {}
    commits: list[str] = []
    progress = [0] * COMMITTERS
    writing = True

    async def write(number: int) -> None:
        lake, turn = lakes[number % len(lakes)], 0
        while min(progress) < COMMITS and turn < TURNS_MAX:
            turn += 1
            path = f"w{number:03}/{turn % 4}"
            if turn % 3 == 2:
                await lake.catalog.objects.delete("lake", "main", [path])
                expected.pop(path, None)
            else:
                await lake.put("main", **{path: f"{turn}"})
                expected[path] = f"{turn}"

    async def commit(number: int) -> None:
        lake, last = lakes[number % len(lakes)], False
        while not last:
            last = not writing
            try:
                commits.append((await lake.catalog.commits.commit("lake", "main", COMMIT)).id)
            except InvalidInputError as error:
                if error.kind is not ErrorKind.NO_CHANGES:
                    raise
                await asyncio.sleep(0.001)
            else:
                progress[number] += 1

    committers = [asyncio.create_task(commit(number)) for number in range(COMMITTERS)]
    await asyncio.gather(*[write(number) for number in range(writers)])
    writing = False
    await asyncio.gather(*committers)

    for lake in lakes:
        assert await lake.show("main") == await lake.show("main@") == expected
    log = (await lakes[0].catalog.commits.log("lake", "main", LogQuery(amount=100_000))).results
    assert Counter(commit.id for commit in log if commit.parents) == Counter(commits)
    assert min(progress) >= COMMITS, f"a committer always lost: {progress}"


async def test_a_hundred_writers_and_four_committers_on_lmdb(tmp_path: Path, lmdb: LmdbKV) -> None:
    async with Site(tmp_path, "mem://", StoreSettings(), kv=lmdb).lake() as lake:
        await contend([lake], writers=100)


@pytest.mark.server
@pytest.mark.xdist_group("postgres")
async def test_writers_and_committers_of_two_servers_on_postgres(tmp_path: Path, postgres_url: str) -> None:
    site = Site(tmp_path, "mem://", StoreSettings(), postgres_url=postgres_url)
    async with AsyncExitStack() as stack:
        lakes = [await stack.enter_async_context(site.lake()) for _ in range(2)]
        await contend(lakes, writers=24)
