"""A process of its own that writes to a folder: `python folder_worker.py TASK ROOT ARGUMENT…`."""

import asyncio
import sys
from pathlib import Path

from lakebed.errors import AlreadyExistsError, PreconditionError
from lakebed.limits import SMALL_OBJECT_BYTES_MAX
from lakebed.objects.drivers.local import LocalObjects
from lakebed.objects.port import IfMatch

LARGE = b"x" * (SMALL_OBJECT_BYTES_MAX + 1)


async def create(root: Path, mark: str, rounds: str) -> None:
    """Try to create the same keys as everyone else, small and large; print those won."""
    store = LocalObjects(root)

    async def one(key: str) -> None:
        try:
            await store.put(key, mark.encode() + (LARGE if key.endswith("large") else b""))
        except AlreadyExistsError:
            return
        say(key)

    for number in range(int(rounds)):
        # `r` and `r/…` want the same name for a file and a folder, in every process at once.
        keys = [f"{number}/r", f"{number}/r/s", f"{number}/r/s/large", f"{number}/t", f"{number}/large"]
        await asyncio.gather(*map(one, keys))
    await store.close()


async def increment(root: Path, times: str) -> None:
    """Add one to a number that everyone else adds to."""
    store = LocalObjects(root)
    done = 0
    while done < int(times):
        found = await store.head("counter")
        assert found is not None
        # The bytes may be those of a later version than the ETag: then the put is refused.
        number = int(await store.get("counter"))
        try:
            await store.put("counter", b"%d" % (number + 1), when=IfMatch(found.etag))
        except PreconditionError:
            continue
        done += 1
    await store.close()


async def write(root: Path, start: str) -> None:
    """Write and delete until killed; print what was acknowledged."""
    store = LocalObjects(root, journal_bytes_max=20_000)

    async def lane(name: str) -> None:
        number = 0
        while True:
            key = f"data/{start}-{name}/{number}"
            size = len(LARGE) if number % 10 == 9 else 100
            await store.put(key, key.encode().ljust(size, b"."))
            say(f"+{key} {size}")
            if number % 3 == 2:
                say(f"?{key} 0")
                await store.delete([key])
                say(f"-{key} 0")
            number += 1

    await asyncio.gather(*map(lane, "abcd"))


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    task = {"create": create, "increment": increment, "write": write}[sys.argv[1]]
    asyncio.run(task(Path(sys.argv[2]), *sys.argv[3:]))
