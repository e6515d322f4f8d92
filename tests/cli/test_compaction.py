"""`lakebed compaction` against a real server."""

import json
from typing import Any

import pytest
from typer.testing import CliRunner

from lakebed.cli.compaction import app
from lakebed.client.repo import Repo
from lakebed.errors import NotFoundError
from lakebed.testing.server_process import ServerProcess

pytestmark = pytest.mark.server


@pytest.fixture(autouse=True)
def found(server: ServerProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let commands find the server."""
    for name, value in server.client_environment.items():
        monkeypatch.setenv(name, value)


def run(*args: str) -> Any:
    said = CliRunner().invoke(app, [*args, "--json"], catch_exceptions=False)
    assert said.exit_code == 0, said.output
    return json.loads(said.output)


def show(*args: str) -> str:
    said = CliRunner().invoke(app, list(args), catch_exceptions=False)
    assert said.exit_code == 0, said.output
    return said.output


def test_compaction_is_paused_asked_for_and_resumed(repo: Repo) -> None:
    assert run("pause", repo.name) == {"repository": repo.name, "paused": True}
    repo.branch("main").write("a", b"x")
    job = run("run", f"{repo.name}/main")
    assert (job["reason"], job["state"]) == ("asked for", "queued")
    state = run("status", repo.name)
    assert (state["paused"], state["sealed_layers"]) == (True, 1)
    assert [each["id"] for each in state["jobs"]] == [job["id"]]
    text = show("status", repo.name)
    assert "paused" in text
    assert job["id"] in text
    assert run("resume", repo.name) == {"repository": repo.name, "paused": False}
    assert repo.branch("main").read("a") == b"x"


def test_parked_jobs_are_named_or_all_of_them_are_meant(repo: Repo) -> None:
    assert run("retry", repo.name, "--all", "--max-failures", "9") == {"retried": 0}
    with pytest.raises(NotFoundError):
        run("retry", repo.name, "nowhere")
    assert CliRunner().invoke(app, ["retry", repo.name]).exit_code == 2
    assert CliRunner().invoke(app, ["retry", repo.name, "job", "--all"]).exit_code == 2


def test_a_branch_without_changes_has_nothing_to_compact(repo: Repo) -> None:
    assert "nothing" in show("run", f"{repo.name}/main")


def test_the_epoch_rises_after_a_restore_and_is_shown(repo: Repo) -> None:
    before = run("status", repo.name)["epoch"]

    raised = run("epoch", repo.name)[repo.name]

    assert raised > before
    assert run("status", repo.name)["epoch"] == raised
    assert f"the epoch of {repo.name} is" in show("epoch", repo.name)
    assert run("status", repo.name)["epoch"] > raised
    assert CliRunner().invoke(app, ["epoch"]).exit_code == 2
