"""The `lakebed` command: finds its sub-commands by entry-point group, and turns errors into sentences.

Commands that run the engine live with it in `server`, those of Spark in `spark`;
each announces itself in the group `lakebed.commands`, so that this module imports
none of them and a plugin can add its own.
"""

import sys
from importlib.metadata import entry_points, version
from typing import Annotated

import typer
from rich.console import Console

from lakebed.errors import LakebedError

_GROUP = "lakebed.commands"

app = typer.Typer(
    name="lakebed",
    help="Git for data lakes: branches, commits and merges over object storage.",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)


def _show_version(*, value: bool) -> None:
    if value:
        typer.echo(f"lakebed {version('lakebed')}")
        raise typer.Exit


@app.callback()
def _options(
    *,
    _version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Git for data lakes: branches, commits and merges over object storage."""


def main() -> None:
    """Run the command line."""
    for entry in sorted(entry_points(group=_GROUP), key=lambda entry: entry.name):
        app.add_typer(entry.load(), name=entry.name)
    try:
        app()
    except LakebedError as error:
        Console(stderr=True, highlight=False).print(
            f"[bold red]error:[/] {error} [dim]({error.kind})[/]", soft_wrap=True
        )
        sys.exit(1)
