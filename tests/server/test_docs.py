"""The examples of the quickstart and of the configuration's page, run as they stand."""

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from lakebed.cli.main import app
from lakebed.testing.server_process import ServerProcess, running_server

DOCS = Path(__file__).parents[2] / "docs"
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(page: str) -> list[tuple[str, str]]:
    return FENCE.findall((DOCS / page).read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """What `make run` starts."""
    with running_server(tmp_path_factory.mktemp("quickstart"), flags=["--sample"]) as running:
        yield running


@pytest.mark.server
@pytest.mark.skipif(shutil.which("curl") is None, reason="one of the four ways is curl")
def test_the_quickstart_runs_from_top_to_bottom(server: ServerProcess, tmp_path: Path) -> None:
    found = [
        (kind, code.replace("http://127.0.0.1:8000", server.endpoint))
        for kind, code in blocks("quickstart.md")
    ]
    # Between two shells the variables would be lost: it is one terminal.
    shell = "\n".join(code for kind, code in found if kind == "sh")
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", shell],
        cwd=tmp_path,
        env={"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin", "HOME": str(tmp_path), "TERM": "dumb"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "anchors are heavy" in done.stdout
    assert done.stdout.endswith("hello")

    for code in [code for kind, code in found if kind == "python"]:
        exec(compile(code, "quickstart.md", "exec"), {"__name__": "docs"})


def test_the_quickstart_needs_no_other_language() -> None:
    assert {kind for kind, _ in blocks("quickstart.md")} == {"sh", "python"}


def test_the_commands_of_the_configuration_page_exist(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    lines = [
        line for kind, code in blocks("configuration.md") if kind == "console" for line in code.splitlines()
    ]
    commands = [line.removeprefix("$ lakebed ").split() for line in lines]
    (setup,) = [words for words in commands if words[0] == "setup"]
    assert CliRunner().invoke(app, setup, catch_exceptions=False).exit_code == 0
    (run,) = [words for words in commands if words[0] == "run"]
    shown = CliRunner().invoke(app, ["run", "--help"], catch_exceptions=False).output
    assert [flag for flag in run if flag.startswith("--") and flag not in shown] == []
