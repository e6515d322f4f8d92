"""Many processes on one environment: they see each other's writes, grow the map together, and may be killed."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from subprocess import Popen

import pytest

from lakebed.kv.drivers.lmdb import LmdbKV
from lakebed.kv.port import Row
from lakebed.testing.kv_suite import keys_of, rows_of

SMALL_MAP = 64 * 1024

Spawn = Callable[..., "Popen[str]"]


async def test_a_process_reads_what_another_wrote(tmp_path: Path, spawn: Spawn) -> None:
    store = LmdbKV(tmp_path)
    child = spawn("write_for_ever", tmp_path)
    assert child.stdout is not None

    for _ in range(50):
        key = child.stdout.readline().strip().encode()
        assert await store.get("p", key) is not None, "acknowledged there, so visible here"

    await store.close()


async def test_processes_grow_the_map_together_while_they_write_and_read(
    tmp_path: Path, spawn: Spawn
) -> None:
    store = LmdbKV(tmp_path, map_bytes=SMALL_MAP)
    before = store.environment.map_bytes()
    children = [spawn("write_rows", tmp_path, name) for name in ("a", "b")]
    own = 0

    while any(child.poll() is None for child in children):
        await store.set_rows("p", [Row(b"own-%d" % own, b"v" * 2048)])
        own += 1
        # Each page is a fresh snapshot of a file that others make longer.
        seen = await keys_of(store, "p", page_items_max=100)
        assert seen == sorted(set(seen))
        await asyncio.sleep(0)

    assert [child.returncode for child in children] == [0, 0]
    expected = [
        f"{name}-{batch:02}-{row}".encode() for name in "ab" for batch in range(40) for row in range(10)
    ]
    expected += [b"own-%d" % n for n in range(own)]
    assert await keys_of(store, "p") == sorted(expected)
    assert store.environment.map_bytes() > before
    await store.close()


@pytest.mark.parametrize("acknowledged", [1, 10, 100, 300])
async def test_every_acknowledged_write_survives_kill_9(
    tmp_path: Path, spawn: Spawn, acknowledged: int
) -> None:
    said: list[str] = []
    for name in ("first", "second"):
        child = spawn("write_for_ever", tmp_path, name)
        assert child.stdout is not None
        said += [child.stdout.readline().strip() for _ in range(acknowledged)]
        child.kill()
        # What it still said before it died was acknowledged as well; half a line was not.
        said += [line.strip() for line in child.stdout if line.endswith("\n")]
        child.wait()

    store = LmdbKV(tmp_path)
    rows = dict(await rows_of(store, "p"))
    last = rows.pop(b"last")
    await store.close()

    assert len(said) >= 2 * acknowledged
    assert {key.encode() for key in said} <= rows.keys()
    assert last in rows, "a batch is there whole or not at all"
