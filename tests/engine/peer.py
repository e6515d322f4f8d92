"""Another server of the same installation, as a process of its own: on LMDB and local files, without the lock."""

import asyncio
import json
import sys
from pathlib import Path

from lakebed.errors import ErrorKind, InvalidInputError, LakebedError
from lakebed.kv.drivers.lmdb import LmdbKV
from lakebed.model.entries import Entry
from lakebed.model.ids import BranchName, parse_path
from lakebed.testing.kill import say, wait_for_order
from lakebed.testing.lake import COMMIT, Lake
from lakebed.testing.site import Site, local_settings


async def write_and_commit(lake: Lake, name: str, *, writers: int, each: int) -> dict[str, list[str]]:
    """Write with many at once and commit meanwhile. Return what was acknowledged: paths, and ids of commits."""
    paths: list[str] = []
    commits: list[str] = []
    writing = True

    async def write(writer: int) -> None:
        for number in range(each):
            path = f"{name}/{writer}/{number}"
            await lake.put("main", **{path: path})
            paths.append(path)

    async def commit() -> None:
        while writing:
            try:
                commits.append((await lake.catalog.commits.commit("lake", "main", COMMIT)).id)
            except InvalidInputError as error:
                if error.kind is not ErrorKind.NO_CHANGES:
                    raise
                await asyncio.sleep(0.001)

    committer = asyncio.create_task(commit())
    await asyncio.gather(*[write(writer) for writer in range(writers)])
    writing = False
    await committer
    return {"paths": paths, "commits": commits}


async def write_to_whatever_is_there(lake: Lake) -> None:
    """Write for ever to the repository `lake`, and hold on to one that was deleted for a while."""
    engine, number = lake.engine, 0
    while True:
        try:
            repo = await engine.repo("lake")
        except LakebedError:
            await asyncio.sleep(0.001)
            continue
        for _ in range(20):
            number += 1
            now = await lake.kv.now()
            address = engine.slices.next_address(now)
            entry = Entry(
                path=parse_path(f"p{number % 50}"),
                address=address,
                checksum=repo.uid,
                size_bytes=20,
                mtime=now,
            )
            try:
                await (await engine.store_of(repo)).put(address, repo.uid.encode())
                await engine.parts.staging.write(repo, BranchName("main"), [entry])
            except LakebedError as error:
                if error.kind not in {ErrorKind.BRANCH_NOT_FOUND, ErrorKind.REPO_NOT_FOUND}:
                    raise
            else:
                say(repo.uid)


async def main(folder: Path, order: str) -> None:
    kv = LmdbKV(folder / "kv")
    site = Site(folder, "local://", local_settings(folder), kv=kv)
    async with site.lake() as lake:
        if order == "write-and-commit":
            say("ready")
            say(json.dumps(await write_and_commit(lake, "peer", writers=10, each=15)))
        else:
            await write_to_whatever_is_there(lake)
    await kv.close()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), wait_for_order()))
