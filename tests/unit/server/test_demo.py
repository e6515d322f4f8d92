"""`lakebed demo`: what a stranger types first works, and what goes wrong is said in a sentence."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from lakebed.errors import LakebedError
from lakebed.server.demo import app


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "lake"


def run(data: Path, *words: str) -> str:
    """Return what the command prints, or raise what it raises."""
    result = CliRunner().invoke(app, ["--data", str(data), *words], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def lakebed(data: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run the command as it is installed."""
    command = Path(sys.executable).with_name("lakebed")
    return subprocess.run(
        [command, "demo", "--data", data, *words], capture_output=True, text=True, check=False, timeout=60
    )


def test_the_first_run_tells_a_story_and_the_second_that_it_is_told(data: Path) -> None:
    first = run(data)
    for step in ("1.", "2.", "3.", "4.", "5.", "fix-prices", "v1", f"lakebed demo --data {data}"):
        assert step in first
    assert "~ sales/day=2026-01-02/part-0.csv" in first
    assert "+ sales/day=2026-01-03/part-0.csv" in first

    second = run(data)
    assert "it is there already: delete the data folder to start over" in second
    assert "Go on from here" in second


def test_everything_it_says_to_type_next_works(data: Path) -> None:
    lines = re.findall(r"^  lakebed demo --data \S+ (.+)$", run(data), re.MULTILINE)
    assert len(lines) == 8
    for line in lines:
        assert run(data, *shlex.split(line))


def test_each_command_shows_its_effect(data: Path) -> None:
    run(data)
    assert "README.md" in run(data, "ls")
    assert "sales/day=2026-01-01/part-0.csv" in run(data, "ls", "--prefix", "sales/")
    assert "README.md" not in run(data, "ls", "--prefix", "sales/")
    assert run(data, "cat", "main", "sales/day=2026-01-02/part-0.csv") == "item,price\nanchor,13\n"
    assert run(data, "cat", "main~1", "sales/day=2026-01-02/part-0.csv") == "item,price\nanchor,12\n"
    assert "try is at" in run(data, "branch", "try")
    assert "staged notes.txt on try" in run(data, "write", "try", "notes.txt", "hello")
    assert run(data, "diff", "main", "try").strip() == ""
    assert run(data, "diff", "main", "try$").strip() == "+ notes.txt"
    assert "on try" in run(data, "commit", "try", "-m", "Add notes")
    assert "1 paths changed" in run(data, "merge", "try")
    assert run(data, "cat", "main", "notes.txt") == "hello\n"
    log = run(data, "log")
    assert "Merge 'try' into 'main'" in log
    assert "Merge 'try' into 'main'" not in run(data, "log", "try")


def test_names_are_printed_as_they_are(data: Path) -> None:
    run(data)
    for path in ("[red]x", "[/x]", "a[0].csv", ":smile:"):
        assert f"staged {path} on main" in run(data, "write", "main", path, "[/y]")
        assert run(data, "cat", "main", path) == "[/y]\n"
        assert path in run(data, "ls")
        assert f"+ {path}" in run(data, "diff", "main", "main$")
    run(data, "commit", "main", "-m", "[/all]")
    assert "[/all]" in run(data, "log")


@pytest.mark.parametrize(
    "words",
    [
        ("cat", "main", "nowhere"),
        ("ls", "nowhere"),
        ("branch", "a/b"),
        ("commit", "main", "-m", "nothing"),
        ("merge", "main"),
        ("diff", "main", "main~99"),
    ],
)
def test_what_cannot_be_done_is_an_error_of_ours(data: Path, words: tuple[str, ...]) -> None:
    run(data)
    with pytest.raises(LakebedError):
        run(data, *words)


def test_an_error_is_a_sentence_and_an_exit_code_without_a_traceback(data: Path) -> None:
    first = lakebed(data)
    assert (first.returncode, first.stderr) == (0, "")
    failed = lakebed(data, "cat", "main", "nowhere.txt")
    assert failed.returncode > 0
    assert failed.stdout == ""
    assert "nowhere.txt" in failed.stderr
    assert "object-not-found" in failed.stderr
    assert "Traceback" not in failed.stderr


def test_a_data_folder_that_cannot_be_one_is_an_error_too(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    failed = lakebed(tmp_path / "file")
    assert failed.returncode > 0
    assert "--data" in failed.stderr
    assert "Traceback" not in failed.stderr
