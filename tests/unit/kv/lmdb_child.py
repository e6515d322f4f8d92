"""Another process on the same LMDB environment, started by the tests of this folder as a script."""

import asyncio
import os
import resource
import signal
import sys
from pathlib import Path

import lmdb

from lakebed.errors import LakebedError
from lakebed.kv.drivers.lmdb import LmdbKV
from lakebed.kv.port import Row

SMALL_MAP = 64 * 1024


def say(text: str) -> None:
    """Tell the parent, at once."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


async def write_for_ever(folder: Path, name: str) -> None:
    """Write rows, many callers at once, and say each one as soon as it is acknowledged."""
    store = LmdbKV(folder, map_bytes=SMALL_MAP)

    async def write(caller: int) -> None:
        number = 0
        while True:
            key = f"{name}-{caller}-{number}"
            await store.set_rows("p", [Row(key.encode(), b"v" * 300), Row(b"last", key.encode())])
            say(key)
            number += 1

    await asyncio.gather(*[write(caller) for caller in range(8)])


async def write_rows(folder: Path, name: str) -> None:
    """Write 400 rows of 2 KiB in 40 batches, with a map that must grow often."""
    store = LmdbKV(folder, map_bytes=SMALL_MAP)
    for batch in range(40):
        rows = [Row(f"{name}-{batch:02}-{row}".encode(), b"v" * 2048) for row in range(10)]
        await store.set_rows("p", rows)
    await store.close()
    say("done")


async def fill_the_disk(folder: Path, _name: str) -> None:
    """Meet the limit of a file's size, which LMDB sees as it sees a full disk, then have it lifted."""
    store = LmdbKV(folder)
    await store.set_rows("p", [Row(b"before", b"v")])
    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    resource.setrlimit(resource.RLIMIT_FSIZE, (256 * 1024, hard))
    batch = 0
    while True:
        try:
            await store.set_rows("p", [Row(b"%04d-%d" % (batch, row), b"v" * 2000) for row in range(20)])
        except LakebedError as error:
            say(f"{error.kind} {batch} {error}")
            break
        batch += 1
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    await store.set_rows("p", [Row(b"after", b"v")])
    await store.close()


async def use_after_fork(folder: Path, _name: str) -> None:
    store = LmdbKV(folder)
    await store.set_rows("p", [Row(b"k", b"v")])
    if os.fork():
        os.wait()
        await store.set_rows("p", [Row(b"parent", b"goes on")])
        await store.close()
        return
    for call in (store.get("p", b"k"), store.set_rows("p", [Row(b"k", b"child")])):
        try:
            await call
        except LakebedError as error:
            say(f"{error.kind} {error}")
    sys.stdout.flush()
    os._exit(0)


async def read_and_hang(folder: Path, _name: str) -> None:
    """Hold a snapshot open until killed."""
    env = lmdb.open(str(folder), max_dbs=2)
    snapshot = env.begin()
    say("reading")
    signal.pause()
    snapshot.abort()


if __name__ == "__main__":
    action, folder, name = sys.argv[1:]
    asyncio.run(globals()[action](Path(folder), name))
