"""Helper processes die, and the pool outlives them: one that broke is replaced, and its jobs run once more."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from lakebed.env.work import ProcessWorkers


class DiedError(Exception):
    pass


@pytest.fixture
async def workers() -> AsyncIterator[ProcessWorkers]:
    workers = ProcessWorkers(1, died=DiedError)
    yield workers
    workers.close()


def die_once(marker: str) -> int:
    """Die by SIGKILL, as the kernel would have it, unless that happened before."""
    if not Path(marker).exists():
        Path(marker).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return os.getpid()


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def wait_for(file: str) -> int:
    while not Path(file).exists():
        pass
    return os.getpid()


async def test_the_next_job_works_after_an_idle_helper_was_killed(workers: ProcessWorkers) -> None:
    helper = await workers.run(os.getpid)

    os.kill(helper, signal.SIGKILL)

    assert await workers.run(os.getpid) not in (helper, os.getpid())
    again = await workers.run(os.getpid)
    assert await workers.run(os.getpid) == again, "a pool, not a process for each job"


async def test_a_job_whose_helper_dies_runs_once_more(workers: ProcessWorkers, tmp_path: Path) -> None:
    assert await workers.run(die_once, str(tmp_path / "died")) != os.getpid()


async def test_a_job_that_kills_every_helper_is_told_so_and_others_go_on(
    workers: ProcessWorkers, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    deadly = asyncio.create_task(workers.run(die))
    other = asyncio.create_task(workers.run(wait_for, str(go)))

    with pytest.raises(DiedError, match="died twice"):
        await deadly
    go.touch()

    assert await other != os.getpid(), "it was in the pool that broke, and ran alone after that"
    assert await workers.run(os.getpid) != os.getpid()


async def test_errors_of_the_job_are_its_own(workers: ProcessWorkers) -> None:
    with pytest.raises(FileNotFoundError):
        await workers.run(os.stat, "/nowhere")


async def test_no_helper_starts_after_the_end(workers: ProcessWorkers) -> None:
    await workers.run(os.getpid)
    workers.close()

    with pytest.raises(DiedError, match="stops"):
        await workers.run(os.getpid)
