"""Compaction on executors: a backlog is shared, nobody sees it happen, and a killed executor's job goes to another."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from pyspark.sql import SparkSession

from lakebed.errors import InvalidInputError
from lakebed.model.compaction import JobKind, JobState
from lakebed.server.data_folder import Layout
from lakebed.server.installation import open_engine
from lakebed.server.wiring import Wired
from lakebed.spark.compaction import spread
from lakebed.spark.jobs import load_job
from lakebed.testing.postgres import PostgresServer
from tests.server.backlog import Backlog, check, make_backlog
from tests.spark.conftest import CLUSTER, on

pytestmark = [pytest.mark.server, pytest.mark.timeout(600)]

# Of the backlog's changes, those that none above them hides.
ROWS_MAIN, ROWS = 90_000, 99_000


def told(backlog: Backlog, monkeypatch: pytest.MonkeyPatch) -> str:
    for name, value in backlog.environment.items():
        monkeypatch.setenv(name, value)
    return load_job("compaction").settings(data=str(backlog.config.data), file=None)


async def sealed_layers(wired: Wired) -> dict[str, int]:
    repo = await wired.catalog.repositories.get("shop")
    found = {}
    for name in ("main", "side"):
        found[name] = len((await wired.engine.parts.branches.get(repo, name)).value.sealed)
    return found


@on(CLUSTER)
async def test_two_executors_drain_a_backlog_in_a_remote_database(
    spark: SparkSession, postgres: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    backlog = await make_backlog(tmp_path, kv_url=postgres.create_database("spark"))
    text = told(backlog, monkeypatch)

    done = await asyncio.to_thread(spread, spark, text, tasks=2)  # noqa: TID251  the test's own thread

    assert sum(each.tasks for each in done) == 2
    assert len({(each.machine, each.process) for each in done}) == 2
    assert sum(each.jobs for each in done) >= 2
    assert sum(each.rows for each in done) >= ROWS
    async with open_engine(backlog.config, Layout(backlog.config.data)) as wired:
        left = await sealed_layers(wired)
    assert left["main"] == 0
    assert left["side"] <= 1
    await check(backlog)


@on(CLUSTER)
async def test_the_job_of_a_killed_executor_goes_to_another(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    backlog = await make_backlog(tmp_path)
    text = told(backlog, monkeypatch)
    with ThreadPoolExecutor(1) as pool:
        spreading = pool.submit(spread, spark, text, tasks=1)
        async with open_engine(backlog.config, Layout(backlog.config.data)) as wired:
            victim = await frozen_at_work(wired, backlog)
        executor, daemon = victim.parent().parent(), victim.ppid()
        for each in [executor, *executor.children(recursive=True)]:
            # The first takes others with it.
            with suppress(psutil.NoSuchProcess):
                each.kill()
        done = await asyncio.wrap_future(spreading)

    assert [each.process for each in done] != [daemon]
    assert sum(each.rows for each in done) >= ROWS_MAIN
    await check(backlog)


async def frozen_at_work(wired: Wired, backlog: Backlog) -> psutil.Process:
    """Stop the one worker in the middle of its large job, and return it."""
    repo = await wired.catalog.repositories.get("shop")

    async def is_at_work() -> bool:
        jobs = (await wired.engine.compaction.jobs.read(repo)).value.jobs
        return any(job.spec.kind is JobKind.L2 and job.state is JobState.RUNNING for job in jobs)

    while True:
        if await is_at_work():
            worker = holder(backlog.config.data / "kv")
            worker.suspend()
            if await is_at_work():
                return worker
            worker.resume()
        await asyncio.sleep(0.01)


def holder(folder: Path) -> psutil.Process:
    """Return the executor's process that has files in a folder open."""
    (found,) = (
        each
        for each in psutil.Process().children(recursive=True)
        if "python" in each.name() and any(file.path.startswith(str(folder)) for file in each.open_files())
    )
    return found


@on(CLUSTER)
def test_a_cluster_does_not_get_a_database_that_it_cannot_reach(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = load_job("compaction").settings(data=str(tmp_path / "data"), file=None)
    monkeypatch.setattr(spark.sparkContext, "master", "spark://elsewhere:7077")
    with pytest.raises(InvalidInputError, match="cannot reach a database that is embedded"):
        spread(spark, text)
