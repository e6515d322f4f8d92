"""A real server with its compactor: deletes pile up, are compacted away, and nobody sees it happen."""

import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from lakebed.testing.server_process import ServerProcess, free_port, running_server
from tests.server.backlog import compactor_of
from tests.server.http import PATIENCE_SECONDS, Http

pytestmark = pytest.mark.server

REPO = "/repositories/shop"
MAIN = f"{REPO}/branches/main"
DELETES = 20_000
LEFT = 5


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    with running_server(tmp_path, workers=1, environment={"LAKEBED_COMPACTION": "on"}) as running:
        yield running


def stage_deletes(http: Http) -> None:
    """Commit a few objects, and delete most of them among many paths that never were."""
    body = {"name": "shop", "storage_namespace": "local://shop"}
    assert http("POST", "/repositories", body=body)[0] == 201
    paths = [f"data/{n:06}" for n in range(DELETES)]
    for path in paths[: LEFT * 4 : 4]:
        assert (
            http("POST", f"{MAIN}/objects", query={"path": path.replace("data", "kept")}, body=b"x")[0] == 201
        )
    for path in paths[::1000]:
        assert http("POST", f"{MAIN}/objects", query={"path": path}, body=b"x")[0] == 201
    assert http("POST", f"{MAIN}/commits", body={"message": "objects"})[0] == 201
    for at in range(0, DELETES, 1000):
        status, answer = http("POST", f"{MAIN}/objects/delete", body={"paths": paths[at : at + 1000]})
        assert (status, answer["errors"]) == (200, [])


def await_compacted(http: Http) -> dict[str, object]:
    """Return what is known of the branch once nothing is left to merge."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        _, found = http("GET", f"{MAIN}/compaction")
        if not found["staging"] and not found["sealed_layers"]:
            return dict(found)
        time.sleep(0.1)
    raise AssertionError(
        f"not compacted after {PATIENCE_SECONDS} s: {found}, {http('GET', f'{REPO}/compaction')}"
    )


def listed(http: Http) -> list[str]:
    _, found = http("GET", f"{REPO}/refs/main/objects/ls", query={"amount": "1000"})
    return [each["path"] for each in found["results"]]


def test_many_deletes_are_compacted_away_and_the_listing_is_right(server: ServerProcess) -> None:
    http = Http(server)
    stage_deletes(http)
    expected = [f"kept/{n * 4:06}" for n in range(LEFT)]
    assert listed(http) == expected
    found = await_compacted(http)
    assert found["compacted"]
    assert found["changes"] == DELETES // 1000
    assert listed(http) == expected
    _, diff = http("GET", f"{MAIN}/diff", query={"amount": "1000"})
    assert [each["type"] for each in diff["results"]] == ["removed"] * (DELETES // 1000)
    assert http("POST", f"{MAIN}/commits", body={"message": "gone"})[0] == 201
    assert listed(http) == expected
    metrics = http.whole("GET", "/metrics")[1].decode()
    assert 'lakebed_compaction_jobs_total{kind="l2",outcome="done"}' in metrics
    assert "lakebed_compaction_sealed_layers_max 0.0" in metrics


def test_a_compactor_that_is_killed_comes_back_and_goes_on(server: ServerProcess) -> None:
    http = Http(server)
    first = compactor_of(server)
    first.kill()
    first.wait(PATIENCE_SECONDS)
    stage_deletes(http)
    await_compacted(http)
    assert compactor_of(server).pid != first.pid
    assert len(listed(http)) == LEFT


def test_a_compactor_of_its_own_works_beside_a_server_that_has_none(tmp_path: Path) -> None:
    environment = {"LAKEBED_COMPACTION": "off"}
    with running_server(tmp_path, environment=environment) as server:
        http = Http(server)
        stage_deletes(http)
        port = free_port()
        code = "from lakebed.server.compactor import compactor; import typer; typer.run(compactor)"
        process = subprocess.Popen(
            [sys.executable, "-c", code, "--data", str(tmp_path / "data"), "--metrics", f"127.0.0.1:{port}"],
            env=dict(os.environ),  # noqa: TID251  the child inherits what the test run has
            stderr=(tmp_path / "compactor.log").open("wb"),
        )
        try:
            await_compacted(http)
            assert len(listed(http)) == LEFT
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
                assert 'lakebed_compaction_jobs_total{kind="l2",outcome="done"}' in answer.read().decode()
            process.send_signal(signal.SIGTERM)
            assert process.wait(PATIENCE_SECONDS) == 0
        finally:
            process.kill()
            process.wait()
        assert "compacted" in (tmp_path / "compactor.log").read_text()
