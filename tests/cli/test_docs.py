"""The examples of the manual, run as they stand."""

import re
import shlex
from pathlib import Path

import fsspec
import pytest

from lakebed.cli.main import main
from lakebed.client.client import Client
from lakebed.fs.filesystem import LakebedFileSystem
from lakebed.testing.server_process import ServerProcess

pytestmark = pytest.mark.server

DOCS = Path(__file__).parents[2] / "docs"
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(page: str, language: str) -> list[str]:
    text = (DOCS / page).read_text(encoding="utf-8")
    return [code for found, code in FENCE.findall(text) if found == language]


@pytest.fixture(autouse=True)
def _configured(server: ServerProcess, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A client finds the server, and the current folder has something to upload."""
    for name, value in server.client_environment.items():
        monkeypatch.setenv(name, value)
    fsspec.get_filesystem_class("lakebed").clear_instance_cache()
    (tmp_path / "folder").mkdir()
    for name in ("a", "b"):
        (tmp_path / "folder" / f"{name}.txt").write_text(name)
    monkeypatch.chdir(tmp_path)


# Dask of today calls what pandas of today deprecates.
@pytest.mark.filterwarnings("ignore:The inplace keyword:DeprecationWarning")
@pytest.mark.parametrize("page", ["python.md", "fsspec.md"])
def test_the_python_of_a_page_runs(page: str) -> None:
    code = "\n".join(blocks(page, "python"))
    assert code

    names = {"__name__": "docs"}
    exec(compile(code, page, "exec"), names)

    for value in names.values():
        if isinstance(value, Client):
            value.close()
        elif isinstance(value, LakebedFileSystem):
            value.client.close()


def test_the_commands_of_the_page_run(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [line for block in blocks("cli.md", "console") for line in block.splitlines()]
    assert lines

    for line in lines:
        prompt, command, *args = shlex.split(line)
        assert (prompt, command) == ("$", "lakebed")
        monkeypatch.setattr("sys.argv", [command, *args])
        with pytest.raises(SystemExit) as ended:
            main()
        assert ended.value.code == 0, line
