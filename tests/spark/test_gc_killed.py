"""Whoever is killed while garbage is collected: nothing that is in use goes, and the next run finishes the work."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from pyspark.sql import SparkSession

from lakebed.errors import UnavailableError
from lakebed.spark.gc.job import ClientServer
from lakebed.spark.gc.ports import Started
from lakebed.spark.java import find_java, shimmed
from lakebed.testing.server_process import ServerProcess
from tests.spark.conftest import CLUSTER, LOCAL, on
from tests.spark.gc_runs import (
    LAKEBED,
    PATIENCE_SECONDS,
    POLARS,
    SLOWLY,
    SPARK,
    TRIAL,
    beginning,
    check,
    collect,
    free_lease,
    inherited,
    serving,
    wait_until,
)
from tests.spark.gc_site import Site

pytestmark = [pytest.mark.server, pytest.mark.timeout(600)]

SCRIPT = "from lakebed.cli.main import main; main()"
"""What the documentation gives to spark-submit."""


def kill_in_its_sweep(site: Site, server: ServerProcess, command: Sequence[str], *options: str) -> None:
    with beginning(server, command, *options, "--yes", *SLOWLY) as started:
        wait_until(lambda: site.is_being_swept() or started.poll() is not None, "something is deleted")
    assert site.stored() & site.garbage, "killed in the middle"
    site.check_nothing_live_is_gone()
    free_lease(server)


def test_a_job_that_was_killed_in_its_sweep_is_finished_by_the_next(site: Site) -> None:
    with serving(site) as server:
        kill_in_its_sweep(site, server, LAKEBED, *POLARS)

        done = collect(server, *POLARS, "--mode", "sweep", "--yes")

        assert done["deleted"] == done["marked"]
        check(site, server)


def test_one_of_spark_that_was_killed_is_finished_by_spark_submit(site: Site, tmp_path: Path) -> None:
    module = (sys.executable, "-m", "lakebed.spark.gc")
    log = tmp_path / "spark.log"
    with serving(site) as server:
        kill_in_its_sweep(site, server, module, *SPARK, "--master", "local[2]", "--spark-log", str(log))
        assert "Spark" in log.read_text()

        done = submit(server, tmp_path, *SPARK, "--yes", "--json")

        assert done.returncode == 0, done.stderr
        # Spark hands on everything that the driver says as standard output: warnings come before the report.
        report = json.loads(done.stdout[done.stdout.index("{") :])
        assert report["engine"] == "spark"
        assert report["deleted"] == report["marked"]
        check(site, server)


def submit(server: ServerProcess, folder: Path, *options: str) -> "subprocess.CompletedProcess[str]":
    """Run the job as a launcher does, and wait for it."""
    (folder / "collect.py").write_text(SCRIPT)
    tools = Path(sys.executable).parent
    here = inherited(folder)
    java = find_java(here)
    return subprocess.run(
        [tools / "spark-submit", "--master", LOCAL, "collect.py", "gc", *TRIAL, *options],
        env={
            **here,
            **server.client_environment,
            "PATH": f"{tools}{os.pathsep}{here['PATH']}",
            "JAVA_HOME": str(shimmed(java.home, folder / "java") if java.needs_shim else java.home),
            "SPARK_LOCAL_IP": "127.0.0.1",
        },
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=560,
        check=False,
    )


def test_killing_the_server_during_a_run_deletes_nothing_wrong(site: Site) -> None:
    runs = site.namespace / "_lakebed" / "gc"
    with serving(site) as server:
        with beginning(server, LAKEBED, *POLARS, "--yes") as marking:
            wait_until(runs.is_dir, "a mark has begun")
            os.kill(server.process.pid, signal.SIGKILL)
            assert marking.wait(PATIENCE_SECONDS) != 0
        assert site.garbage <= site.stored(), "a mark deletes nothing"
        site.check_nothing_live_is_gone()
    with serving(site) as server:
        free_lease(server)
        with beginning(server, LAKEBED, *POLARS, "--yes", *SLOWLY) as sweeping:
            wait_until(site.is_being_swept, "a sweep has begun")
            os.kill(server.process.pid, signal.SIGKILL)
            assert sweeping.wait(PATIENCE_SECONDS) != 0
        site.check_nothing_live_is_gone()
    with serving(site) as server:
        free_lease(server)
        collect(server, *POLARS, "--yes")
        check(site, server)


@on(CLUSTER)
def test_killed_executors_end_a_mark_and_killed_workers_delay_a_sweep(
    spark: SparkSession, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare_commits = ClientServer.prepare_commits

    async def unlucky(self: ClientServer, started: Started) -> str:
        # The store is listed, and what was found lies on executors.
        kill(executors())
        return await prepare_commits(self, started)

    def kill_workers_in_a_sweep() -> int:
        wait_until(site.is_being_swept, "something is deleted")
        kill(workers())
        return len(site.stored() & site.garbage)

    with serving(site) as server:
        with monkeypatch.context() as patch:
            patch.setattr(ClientServer, "prepare_commits", unlucky)
            with pytest.raises(UnavailableError, match="a Spark job failed: "):
                collect(server, *SPARK, "--yes")
        assert site.garbage <= site.stored(), "what was listed is not listed again at another time"
        site.check_nothing_live_is_gone()
        with ThreadPoolExecutor(1) as pool:
            killing = pool.submit(kill_workers_in_a_sweep)
            done = collect(server, *SPARK, "--yes", *SLOWLY)
            assert killing.result(), "killed in the middle"

        assert done["deleted"] == done["marked"]
        assert done["marked_objects"]["objects"] == len(site.garbage)
        check(site, server)
    assert spark.range(3).count() == 3


def executors() -> list[psutil.Process]:
    """Return the Javas of executors."""
    ours = psutil.Process().children(recursive=True)
    return [each for each in ours if any("CoarseGrainedExecutorBackend" in word for word in words_of(each))]


def workers() -> list[psutil.Process]:
    """Return the Pythons that run tasks: children of one for each executor that starts them."""
    daemons = (each for executor in executors() for each in executor.children())
    return [worker for daemon in daemons for worker in daemon.children()]


def words_of(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.NoSuchProcess:
        return []


def kill(processes: Sequence[psutil.Process]) -> None:
    assert processes, "there is somebody to kill"
    for each in processes:
        with suppress(psutil.NoSuchProcess):
            each.kill()
