"""The process that is killed: an installation with many writers and a committer on each branch."""

import asyncio
import hashlib
import json
import random  # noqa: TID251  a seed decides what the writers do
from pathlib import Path

from lakebed.errors import LakebedError
from lakebed.limits import SMALL_OBJECT_BYTES_MAX
from lakebed.model.lifetimes import Lifetimes
from lakebed.server.config import Config
from lakebed.server.installation import open_installation
from lakebed.server.wiring import Wired
from lakebed.testing.kill import say, wait_for_order
from lakebed.versioning.commit import CommitRequest

WRITERS = 5
PATHS = 6


def config(folder: Path) -> Config:
    """An installation without a grace.

    A clock that is ahead would do for the layers, but pending operations would be taken for dead.
    """
    return Config(data=folder, lifetimes=Lifetimes(grace_seconds=0))


def tell(event: str, branch: str, operation: str, detail: object = None) -> None:
    say(json.dumps([event, branch, operation, detail]))


async def write(wired: Wired, branch: str, writer: int, life: str, chance: random.Random) -> None:
    """Upload, overwrite and delete the paths of one writer, one at a time, for ever."""
    number = 0
    while True:
        number += 1
        operation = f"{life}/w{writer}/{number}"
        paths = [f"w{writer}/{chance.randrange(PATHS)}" for _ in range(3)]
        if chance.random() < 0.25:
            tell("write", branch, operation, dict.fromkeys(paths))
            call = wired.catalog.objects.delete("lake", branch, sorted(set(paths)))
        else:
            large = chance.random() < 0.1
            data = operation.encode() * (1 if not large else 2 * SMALL_OBJECT_BYTES_MAX // len(operation))
            tell("write", branch, operation, {paths[0]: hashlib.md5(data).hexdigest()})
            call = wired.catalog.objects.upload("lake", branch, paths[0], data)
        try:
            await call
        except LakebedError as error:
            tell("not-written", branch, operation, error.kind)
        else:
            tell("written", branch, operation)


async def commit(wired: Wired, branch: str, life: str) -> None:
    """Commit for ever, and tag every commit."""
    number = 0
    while True:
        number += 1
        operation = f"{life}/c/{number}"
        tell("commit", branch, operation)
        try:
            made = await wired.catalog.commits.commit(
                "lake", branch, CommitRequest(committer="child", message=operation)
            )
        except LakebedError as error:
            tell("not-committed", branch, operation, error.kind)
            await asyncio.sleep(0.01)
            continue
        tell("committed", branch, operation, made.id)
        await wired.catalog.tags.create("lake", f"of-{made.id}", made.id)
        tell("tagged", branch, operation, made.id)


async def clean(wired: Wired) -> None:
    """Free retired layers at once."""
    while True:
        await wired.cleaner.clean_once(await wired.engine.parts.kv.now())
        await asyncio.sleep(0.05)


async def main(order: str) -> None:
    folder, life, branches = json.loads(order)
    chance = random.Random(life)
    async with open_installation(config(Path(folder))) as wired:
        work = [
            write(wired, branch, writer, life, random.Random(chance.random()))
            for branch in branches
            for writer in range(WRITERS)
        ]
        work += [commit(wired, branch, life) for branch in branches]
        await asyncio.gather(*work, clean(wired))


if __name__ == "__main__":
    asyncio.run(main(wait_for_order()))
