"""Garbage collection from end to end: the command, a server process, a namespace in a folder or on S3, both engines.

Every kind of garbage goes, nothing else does, whoever is killed on the way.
"""

import asyncio
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from lakebed.client.client import Client
from lakebed.objects.settings import StoreSettings
from lakebed.spark.gc.command import app
from lakebed.testing.s3_server import make_bucket, s3_server
from lakebed.testing.server_process import ServerProcess, running_server
from tests.server.http import Http
from tests.spark.conftest import CLUSTER, LOCAL, on
from tests.spark.gc_site import MANY, REPO, TRIAL, Site, collect, command, make_site, serving, summary_of

pytestmark = [pytest.mark.server, pytest.mark.timeout(600)]

PATIENCE_SECONDS = 120.0
POLARS = ("--engine", "polars")
GC_ACTIONS = [
    "retention:RunGarbageCollection",
    "retention:PrepareGarbageCollectionCommits",
    "retention:PrepareGarbageCollectionUncommitted",
]


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return asyncio.run(make_site(tmp_path))


def client_of(server: ServerProcess) -> Client:
    return Client(server.endpoint, server.access_key, server.secret_key)


def listed(server: ServerProcess, ref: str) -> set[str]:
    with client_of(server) as client:
        return {each.path for each in client.repo(REPO).ref(ref).objects()}


def check(site: Site, server: ServerProcess) -> None:
    """All garbage is gone, and nothing else."""
    assert site.stored() == site.live
    site.check_nothing_live_is_gone()
    for ref, paths in site.paths.items():
        assert listed(server, ref) == paths


def wait_until(is_so: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not is_so():
        assert time.monotonic() < deadline, f"never so: {what}"
        time.sleep(0.01)


def test_every_kind_of_garbage_goes_and_nothing_else(site: Site) -> None:
    with serving(site) as server:
        looked = summary_of(collect(server, *POLARS, "--json"))
        assert looked["marked_objects"]["objects"] == len(site.garbage)
        assert site.garbage <= site.stored(), "without --yes nothing is deleted"
        collect(server, *POLARS, "--mode", "mark")
        swept = collect(server, *POLARS, "--mode", "sweep")
        assert "nothing was deleted" in swept.stdout
        assert site.garbage <= site.stored()

        done = summary_of(collect(server, *POLARS, "--yes", "--json"))

        assert done["deleted"]["objects"] >= len(site.garbage)
        check(site, server)
        again = summary_of(collect(server, *POLARS, "--clean", "--yes", "--json"))
        assert again["marked_objects"]["objects"] == 0
        check(site, server)


@on(LOCAL, CLUSTER)
def test_the_same_on_spark(spark: SparkSession, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(site) as server:
        for name, value in server.client_environment.items():
            monkeypatch.setenv(name, value)
        options = ["run", f"lakebed://{REPO}", *TRIAL, "--engine", "spark", "--yes", "--json"]

        done = CliRunner().invoke(app, options, catch_exceptions=False)

        assert done.exit_code == 0
        summary = json.loads(done.stdout)
        assert summary["engine"] == "spark"
        assert summary["marked_objects"]["objects"] == len(site.garbage)
        check(site, server)
    assert spark.range(3).count() == 3, "a session of somebody else's goes on"


@on(LOCAL)
def test_a_namespace_on_s3_is_collected_by_executors(
    spark: SparkSession, s3: StoreSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    variables = {
        "LAKEBED_STORAGE_S3_ENDPOINT": s3.s3_endpoint or "",
        "LAKEBED_STORAGE_S3_ACCESS_KEY_ID": s3.s3_access_key_id or "",
        "LAKEBED_STORAGE_S3_SECRET_ACCESS_KEY": s3.s3_secret_access_key or "",
    }
    with running_server(tmp_path, environment=variables) as server, client_of(server) as client:
        for name, value in {**variables, **server.client_environment}.items():
            monkeypatch.setenv(name, value)
        repo = client.repo(REPO)
        repo.create("s3://collected/shop")
        main = repo.branch("main")
        for number in range(30):
            main.write(f"o{number:02}", "content")
        for number in range(0, 30, 3):
            main.delete_object(f"o{number:02}")
        main.commit("two thirds")
        options = ["run", f"lakebed://{REPO}", *TRIAL, "--engine", "spark", "--yes", "--json"]

        done = CliRunner().invoke(app, options, catch_exceptions=False)

        assert json.loads(done.stdout)["deleted"]["objects"] == 10
        for number in range(30):
            if number % 3:
                assert main.read(f"o{number:02}") == b"content"
    assert spark.range(3).count() == 3


@pytest.fixture(scope="module")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StoreSettings]:
    with s3_server(tmp_path_factory.mktemp("s3")) as settings:
        make_bucket(settings, "collected")
        yield settings


@pytest.mark.parametrize("engine", ["polars", "spark"])
def test_a_job_that_was_killed_in_its_sweep_is_finished_by_the_next(tmp_path: Path, engine: str) -> None:
    site = asyncio.run(make_site(tmp_path, many=MANY))
    with serving(site) as server:
        options = ("--engine", engine, *(("--master", "local[1]") if engine == "spark" else ()))
        started = begin(server, *options, "--yes", "--rate", "1000")
        wait_until(lambda: len(site.stored() & site.garbage) < len(site.garbage), "something is deleted")
        started.kill()
        started.wait()
        assert site.stored() & site.garbage, "killed in the middle"
        site.check_nothing_live_is_gone()
        free_lease(server)

        done = summary_of(collect(server, *POLARS, "--mode", "sweep", "--yes", "--json"))

        assert done["deleted"] == done["marked"]
        check(site, server)


@pytest.mark.parametrize("phase", ["mark", "sweep"])
def test_killing_the_server_during_a_run_deletes_nothing_wrong(tmp_path: Path, phase: str) -> None:
    site = asyncio.run(make_site(tmp_path, many=MANY))
    runs = site.namespace / "_lakebed" / "gc"
    with serving(site) as server:
        started = begin(server, *POLARS, "--yes", "--rate", "1000")
        if phase == "mark":
            wait_until(runs.is_dir, "a run has begun")
        else:
            wait_until(lambda: len(site.stored() & site.garbage) < len(site.garbage), "a sweep has begun")
        os.kill(server.process.pid, signal.SIGKILL)
        assert started.wait(PATIENCE_SECONDS) != 0
    site.check_nothing_live_is_gone()
    if phase == "mark":
        assert site.garbage <= site.stored(), "a mark deletes nothing"
    with serving(site) as server:
        free_lease(server)
        summary_of(collect(server, *POLARS, "--yes", "--json"))
        check(site, server)


def test_a_key_with_the_permission_for_it_alone_is_enough(site: Site) -> None:
    with serving(site) as server:
        http = Http(server)
        statement = {
            "effect": "allow",
            "action": GC_ACTIONS,
            "resource": f"arn:lakefs:fs:::repository/{REPO}",
        }
        asked = [
            ("POST", "/auth/users", {"id": "collector"}),
            ("POST", "/auth/policies", {"id": "Collect", "statement": [statement]}),
            ("PUT", "/auth/users/collector/policies/Collect", None),
        ]
        for method, path, body in asked:
            assert http(method, path, body=body)[0] == 201
        status, key = http("POST", "/auth/users/collector/credentials")
        assert status == 201
        own = {
            "LAKEBED_ACCESS_KEY_ID": key["access_key_id"],
            "LAKEBED_SECRET_ACCESS_KEY": key["secret_access_key"],
        }

        done = summary_of(collect(server, "--yes", "--json", **own))

        # It may not see how large the repository was before, and takes the engine for any size.
        assert done["engine"] == "spark"
        check(site, server)


def begin(server: ServerProcess, *options: str) -> "subprocess.Popen[bytes]":
    """Start the command, with nobody to hear what it says."""
    return subprocess.Popen(
        command(*options),
        env={**os.environ, **server.client_environment},  # noqa: TID251  the child inherits what the test run has
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def free_lease(server: ServerProcess) -> None:
    """Let nobody wait for the lease of somebody who is dead."""
    with client_of(server) as client:
        gc = client.repo(REPO).gc
        taken = gc.begin("sweep", takeover=True)
        gc.end(taken.run_id, taken.token)
