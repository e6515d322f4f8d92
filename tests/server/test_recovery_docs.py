"""The commands of the page on disaster recovery exist, with the options that it gives them."""

import re
import shlex
from pathlib import Path

import pytest
import typer
from typer.main import get_command

from lakebed.cli.main import app

PAGE = Path(__file__).parents[2] / "docs" / "disaster-recovery.md"
FENCE = re.compile(r"```bash\n(.*?)```", re.DOTALL)
LINES = [
    line
    for code in FENCE.findall(PAGE.read_text())
    for line in code.splitlines()
    if line.startswith("lakebed ")
]


@pytest.mark.parametrize("line", LINES)
def test_a_command_of_the_page_parses(line: str) -> None:
    words = shlex.split(line)[1:]
    group = get_command(app)
    context = typer.Context(group, info_name="lakebed")
    while hasattr(group, "resolve_command"):
        _, group, words = group.resolve_command(context, words)
        context = typer.Context(group, parent=context)
    group.make_context(group.name, words, resilient_parsing=True)
    known = {option for each in group.params for option in each.opts}
    assert {word for word in words if word.startswith("--")} <= known


def test_the_page_has_commands() -> None:
    assert len(LINES) >= 8
