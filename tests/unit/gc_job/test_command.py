"""`lakebed gc` against a real server."""

import json
from typing import Any

import pytest
from typer.testing import CliRunner

from lakebed.client.repo import Repo
from lakebed.errors import NotFoundError
from lakebed.spark.gc.command import app
from lakebed.testing.server_process import ServerProcess

pytestmark = pytest.mark.server
NOW = ("--min-age", "0", "--grace", "0", "--engine", "polars")


@pytest.fixture(autouse=True)
def found(server: ServerProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let commands find the server."""
    for name, value in server.client_environment.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def lake(repo: Repo) -> Repo:
    """Nine objects are committed, and one was deleted before it was."""
    main = repo.branch("main")
    for n in range(9):
        main.write(f"a/{n}", b"x" * 10)
    main.commit("nine")
    main.write("b", b"y" * 5)
    main.delete_objects(["b"])
    return repo


def run(*args: str) -> Any:
    said = CliRunner().invoke(app, [*args, "--json"], catch_exceptions=False)
    assert said.exit_code == 0, said.output
    return json.loads(said.stdout)


def show(*args: str) -> Any:
    said = CliRunner().invoke(app, list(args), catch_exceptions=False)
    assert said.exit_code == 0, said.output
    return said


def test_nothing_is_deleted_without_yes(lake: Repo) -> None:
    first = run("run", lake.name, *NOW)
    assert (first["marked"], first["deleted"]["objects"]) == ({"objects": 1, "bytes": 5}, 0)
    assert run("show", lake.name, first["run"])["marked"]["objects"] == 1
    with pytest.raises(NotFoundError, match="has no mark yet"):
        run("run", lake.name, "--mode", "sweep")

    run("run", lake.name, *NOW, "--mode", "mark")
    assert run("run", lake.name, "--mode", "sweep")["deleted"]["objects"] == 0
    again = run("run", lake.name, *NOW, "--clean")
    assert again["listed"]["objects"] == 10


def test_a_run_with_yes_sweeps_what_it_has_marked_and_a_quarantine_gives_it_back(lake: Repo) -> None:
    swept = run("run", lake.name, *NOW, "--yes", "--quarantine", "1")
    assert swept["deleted"] == swept["marked"] == swept["quarantined"] == {"objects": 1, "bytes": 5}
    assert run("show", lake.name)["swept_at"] is not None

    assert run("restore", lake.name, swept["run"]) == {"objects": 1, "bytes": 5}
    assert run("run", lake.name, *NOW, "--clean")["listed"]["objects"] == 10
    assert [lake.ref("main").read(f"a/{n}") for n in range(9)] == [b"x" * 10] * 9


def test_usual_ages_touch_nothing_that_is_new(lake: Repo) -> None:
    found = run("run", lake.name, "--yes")

    assert (found["candidates"]["objects"], found["warnings"]) == (0, [])


def test_short_ages_are_warned_of_and_a_report_is_shown(lake: Repo) -> None:
    said = show("run", lake.name, *NOW)

    assert "For trials only" in said.stderr
    assert "This was a dry run: nothing was deleted. --yes deletes 1 objects, 5 B." in said.stdout
    assert "clean: no earlier mark counts" in said.stdout
    assert "done" in show("runs", lake.name).stdout


def test_a_mark_is_named_only_to_sweep_it(lake: Repo) -> None:
    assert CliRunner().invoke(app, ["run", lake.name, "--mark-id", "x"]).exit_code == 2


def test_a_repository_without_runs_says_so(repo: Repo) -> None:
    assert "No garbage has been collected here yet" in show("runs", repo.name).stdout
    with pytest.raises(NotFoundError, match="has no mark yet"):
        CliRunner().invoke(app, ["show", repo.name], catch_exceptions=False)
