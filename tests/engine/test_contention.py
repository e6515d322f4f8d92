"""Many writers and committers on one branch: nothing acknowledged is lost, and everyone gets on."""

import asyncio
from collections import Counter
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from lakebed.errors import ErrorKind, InvalidInputError
from lakebed.kv.drivers.lmdb import LmdbKV
from lakebed.refs.log import LogQuery
from lakebed.testing.lake import COMMIT, Lake
from lakebed.testing.site import Site, local_settings

COMMITTERS = 4


async def contend(lakes: list[Lake], *, writers: int, each: int) -> None:
    """Let `writers` write while four commit, spread over the engines; then compare with what was acknowledged."""
    expected: dict[str, str] = {}
    commits: list[str] = []
    answers: Counter[tuple[int, str]] = Counter()
    writing = True

    async def write(number: int) -> None:
        lake = lakes[number % len(lakes)]
        for turn in range(each):
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
                answers[number, error.kind] += 1
                await asyncio.sleep(0.001)
            else:
                answers[number, "committed"] += 1

    committers = [asyncio.create_task(commit(number)) for number in range(COMMITTERS)]
    await asyncio.gather(*[write(number) for number in range(writers)])
    writing = False
    await asyncio.gather(*committers)

    for lake in lakes:
        assert await lake.show("main") == await lake.show("main@") == expected
    log = (await lakes[0].catalog.commits.log("lake", "main", LogQuery(amount=100_000))).results
    assert Counter(commit.id for commit in log if commit.parents) == Counter(commits)
    progress = {number: answers[number, "committed"] for number in range(COMMITTERS)}
    assert all(progress.values()), f"a committer never had its turn: {progress}"


async def test_a_hundred_writers_and_four_committers_on_lmdb(tmp_path: Path, lmdb: LmdbKV) -> None:
    async with Site(tmp_path, "local://", local_settings(tmp_path), kv=lmdb).lake() as lake:
        await contend([lake], writers=100, each=12)


@pytest.mark.server
@pytest.mark.xdist_group("postgres")
async def test_writers_and_committers_of_two_servers_on_postgres(tmp_path: Path, postgres_url: str) -> None:
    site = Site(tmp_path, "local://", local_settings(tmp_path), postgres_url=postgres_url)
    async with AsyncExitStack() as stack:
        lakes = [await stack.enter_async_context(site.lake()) for _ in range(2)]
        await contend(lakes, writers=24, each=9)
