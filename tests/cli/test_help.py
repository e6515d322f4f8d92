"""What the command line says about itself; no server is needed."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.main import get_command

from lakebed.cli.main import app, main

# They print bytes, or run until they are stopped, or talk to a person.
WITHOUT_JSON = {"fs cat", "run", "setup", "compactor"}


def commands() -> Iterator[tuple[str, Any]]:
    """Every command that does something, with its whole name."""

    def below(group: Any, name: str) -> Iterator[tuple[str, Any]]:
        context = typer.Context(group)
        for each in group.list_commands(context):
            command = group.get_command(context, each)
            whole = f"{name} {each}".strip()
            if hasattr(command, "list_commands"):
                yield from below(command, whole)
            else:
                yield whole, command

    return below(get_command(app), "")


ALL = dict(commands())


@pytest.mark.parametrize("name", [name for name in ALL if name.partition(" ")[0] != "demo"])
def test_every_command_and_everything_it_takes_says_what_it_is_for(name: str) -> None:
    command = ALL[name]

    assert command.help
    assert [each.name for each in command.params if not each.help] == []


@pytest.mark.parametrize("name", [name for name in ALL if name.partition(" ")[0] != "demo"])
def test_every_command_that_prints_data_prints_json(name: str) -> None:
    names = [option for each in ALL[name].params for option in each.opts]

    assert ("--json" in names) is (name not in WITHOUT_JSON)


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        (["brnch"], "branch"),
        (["comit"], "commit"),
        (["diagnostic"], "diagnostics"),
        (["ls"], "fs ls"),
        (["fs", "uplaod"], "upload"),
        (["auth", "user", "creat"], "create"),
    ],
)
def test_a_mistyped_command_is_answered_with_the_nearest(
    typed: list[str], meant: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["lakebed", *typed, "--whatever"])
    monkeypatch.setenv("TERM", "dumb")

    with pytest.raises(SystemExit) as ended:
        main()

    assert ended.value.code == 2
    assert f"Did you mean '{meant}'?" in capsys.readouterr().err


def test_a_command_like_none_is_answered_without_a_guess(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["lakebed", "xyzzy"])

    with pytest.raises(SystemExit):
        main()

    assert "Did you mean" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("line", "completed"),
    [("lakebed bra", "branch"), ("lakebed fs upl", "upload"), ("lakebed auth user cre", "create")],
)
def test_a_shell_completes_commands(line: str, completed: str) -> None:
    command = Path(sys.executable).parent / "lakebed"
    words = line.split()
    environment = {
        "_LAKEBED_COMPLETE": "complete_bash",
        "COMP_WORDS": line,
        "COMP_CWORD": str(len(words) - 1),
    }

    said = subprocess.run([command], env=environment, capture_output=True, text=True, check=True)

    assert said.stdout.split() == [completed]
