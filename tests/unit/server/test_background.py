"""Background tasks: each has one owner, and one that fails does not end silently."""

import ast
import asyncio
from pathlib import Path

import pytest

import lakebed
from lakebed.env.clock import SystemClock
from lakebed.errors import ErrorKind, UnavailableError
from lakebed.server import background
from lakebed.server.background import Background

SOURCE = Path(lakebed.__file__).parent

# Every place that starts a task, and who ends it and hears of its failure. A task that outlives the call that starts it is
# either kept by `Background`, or by the object named here, which awaits or reports it.
OWNERS = {
    "server/background.py": "Background restarts it and ends it",
    "server/compactor.py": "the command waits for both",
    "server/draining.py": "the command waits for both",
    "server/http/acceptor.py": "Connections ends what is being opened",
    "server/http/protocol.py": "the connection ends its exchange, which answers 500 for what it raises",
    "catalog/tasks.py": "Tasks records how it ended, and drains them at the end",
    "catalog/adoption.py": "ended with the block that adopts",
    "catalog/digests.py": "awaited by the caller",
    "compaction/worker.py": "CompactionWorker notes how an attempt ended, and gives back at the end",
    "compaction/attempt.py": "awaited by the attempt",
    "committed/cache.py": "awaited by those who want the file",
    "committed/pipeline.py": "awaited by the caller, in order",
    "committed/writer.py": "awaited by the caller",
    "kv/wrappers/shared_reads.py": "awaited by those who ask, and by close",
    "objects/chunks.py": "awaited by the caller",
    "objects/drivers/local.py": "the store awaits its rotation when it closes",
    "objects/drivers/s3.py": "awaited by the caller",
    "objects/open_stores.py": "OpenStores logs a store that does not close, and awaits them at the end",
    "objects/local/group.py": "answers those who wait for the group",
    "refs/pins.py": "ended with the block that holds the pin",
    "staging/reader.py": "awaited by the caller",
    "staging/sharing.py": "answers those who wait for the lane, and drained",
    "staging/writer.py": "answers those who wait for the batch, and drained",
    "versioning/head.py": "ended with the operation",
    "versioning/importing.py": "awaited by the caller",
    "spark/gc/lease.py": "ended with the block that has the lease",
    "spark/gc/spark_tasks.py": "awaited by the caller",
    "spark/gc/together.py": "awaited by the caller",
}

STARTS = {"create_task", "ensure_future"}


def starters() -> set[str]:
    found = set()
    for file in SOURCE.rglob("*.py"):
        name = str(file.relative_to(SOURCE))
        if name.startswith("testing/"):
            continue
        calls = [node.func for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.Call)]
        if any(isinstance(call, ast.Attribute) and call.attr in STARTS for call in calls):
            found.add(name)
    return found


def test_every_task_that_is_started_has_an_owner() -> None:
    assert starters() - OWNERS.keys() == set(), "say who ends it and hears of its failure"
    assert OWNERS.keys() - starters() == set(), "these start no tasks any more"


async def test_a_task_that_fails_is_logged_and_started_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "BACKGROUND_RESTART_SECONDS", 0.0)
    heard: list[str] = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, c: heard.append(c["message"]))
    runs = 0
    again = asyncio.Event()

    async def work() -> None:
        nonlocal runs
        runs += 1
        if runs == 1:
            raise KeyError("a bug")
        if runs == 2:
            raise UnavailableError(ErrorKind.STORE_UNAVAILABLE, "an outage")
        again.set()
        await asyncio.Event().wait()

    tasks = Background(SystemClock())
    tasks.start("work", work)
    await again.wait()
    assert (runs, heard, tasks.names) == (3, ["background_task_failed"], ["work"])
    await tasks.stop()
    assert tasks.names == []
