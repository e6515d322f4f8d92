"""Runs of the garbage collection job on a site with a server, in this process or in one of their own."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from lakebed.client.client import Client
from lakebed.spark.gc.command import app
from lakebed.testing.server_process import ServerProcess, running_server
from tests.spark.gc_site import REPO, Site

PATIENCE_SECONDS = 300.0
QUICK_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
LAKEBED = (str(Path(sys.executable).parent / "lakebed"), "gc")
TRIAL = ("run", f"lakebed://{REPO}", "--min-age", "0", "--grace", "0", "--allow-large")
POLARS = ("--engine", "polars")
SPARK = ("--engine", "spark")
SLOWLY = ("--rate", "500")
"""Two seconds from the first objects that are deleted to the next."""


@contextmanager
def serving(site: Site) -> Iterator[ServerProcess]:
    """Run a server on a site, today."""
    with running_server(site.folder) as server:
        yield server


def client_of(server: ServerProcess) -> Client:
    return Client(server.endpoint, server.access_key, server.secret_key)


def collect(server: ServerProcess, *options: str, **variables: str) -> dict[str, Any]:
    """Run the job in this process, and return its report."""
    environment = {**server.client_environment, **variables}
    done = CliRunner().invoke(app, [*TRIAL, *options, "--json"], env=environment, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    report: dict[str, Any] = json.loads(done.stdout)
    return report


@contextmanager
def beginning(
    server: ServerProcess, command: Sequence[str], *options: str
) -> Iterator["subprocess.Popen[bytes]"]:
    """Start the job, with nobody to hear what it says, and kill it at the end."""
    started = subprocess.Popen(
        [*command, *TRIAL, *options],
        env={**inherited(server.folder), **server.client_environment},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield started
    finally:
        started.kill()
        started.wait()


def inherited(folder: Path) -> dict[str, str]:
    """Return what a child inherits of the test run, a Java that does not prepare for hours, and where it may leave files."""
    java = f"{QUICK_JAVA} -Djava.io.tmpdir={folder}"
    return {**os.environ, "JAVA_TOOL_OPTIONS": java, "TMPDIR": str(folder)}  # noqa: TID251  the child's, not ours


def check(site: Site, server: ServerProcess) -> None:
    """All garbage is gone, and nothing else."""
    assert site.stored() == site.live
    site.check_nothing_live_is_gone()
    with client_of(server) as client:
        for ref, paths in site.paths.items():
            assert {each.path for each in client.repo(REPO).ref(ref).objects()} == paths


def wait_until(is_so: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not is_so():
        assert time.monotonic() < deadline, f"never so: {what}"
        time.sleep(0.1)  # Looking costs the job time too: a whole store may be listed.


def free_lease(server: ServerProcess) -> None:
    """Let nobody wait for the lease of somebody who is dead."""
    with client_of(server) as client:
        gc = client.repo(REPO).gc
        taken = gc.begin("sweep", takeover=True)
        gc.end(taken.run_id, taken.token)
