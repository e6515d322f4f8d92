"""The `lakebed` command: finds its sub-commands by entry-point group, and turns errors into sentences.

Commands that run the engine live with it in `server`, those of Spark in `spark`;
each announces itself in the group `lakebed.commands`, as a Typer application or as
a function, so that this module imports none of them and a plugin can add its own.
Only the command that is called is imported: listing a folder does not wait for the
engine to load.
"""

import sys
from difflib import get_close_matches
from importlib.metadata import EntryPoint, entry_points, version
from inspect import cleandoc
from typing import Annotated, Any, Final, cast

import typer
from typer.core import TyperGroup
from typer.main import get_command

from lakebed.cli.errors import exit_code_of, show
from lakebed.errors import LakebedError

_GROUP: Final = "lakebed.commands"

# The help page, from top to bottom. What is not here comes last.
_PANELS: Final = {
    "Data": ("repo", "fs", "import"),
    "Versions": ("branch", "commit", "log", "diff", "merge", "tag", "stash", "refs"),
    "Access": ("auth", "config", "doctor"),
    "Server": (
        "run",
        "setup",
        "demo",
        "compactor",
        "compaction",
        "verify",
        "diagnostics",
        "gc",
        "spark",
        "kv",
    ),
}
_OTHERS: Final = "More"
# What a person who knows another tool types first.
_ELSEWHERE: Final = {name: f"fs {name}" for name in ("ls", "cat", "stat", "upload", "download", "cp", "rm")}
_ORDER: Final = {name: (panel, i) for panel, names in _PANELS.items() for i, name in enumerate(names)}


class _Commands(TyperGroup):
    """Sub-commands that are imported when they are asked for."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002
        panels = [*_PANELS, _OTHERS]

        def place(name: str) -> tuple[int, int, str]:
            panel, index = _ORDER.get(name, (_OTHERS, 0))
            return panels.index(panel), index, name

        return sorted({entry.name for entry in entry_points(group=_GROUP)}, key=place)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002
        for entry in entry_points(group=_GROUP, name=cmd_name):
            command = _load(entry)
            command.rich_help_panel = _ORDER.get(cmd_name, (_OTHERS, 0))[0]
            return command
        return None

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the command, or say which one may have been meant: Typer knows only those that are imported."""
        name, known = args[0], self.list_commands(ctx)
        if name not in known and not name.startswith("-") and not ctx.resilient_parsing:
            meant = _ELSEWHERE.get(name) or next(iter(get_close_matches(name, known, n=1)), None)
            ctx.fail(f"No such command '{name}'." + (f" Did you mean '{meant}'?" if meant else ""))
        return super().resolve_command(ctx, args)


def _load(entry: EntryPoint) -> Any:
    found, shell = entry.load(), typer.Typer(add_completion=False, rich_markup_mode="rich")
    if not isinstance(found, typer.Typer):
        shell.command(entry.name)(found)
        return _unwrapped(get_command(shell))
    shell.add_typer(found, name=entry.name)
    return _unwrapped(cast("TyperGroup", get_command(shell)).commands[entry.name])


def _unwrapped(command: Any) -> Any:
    """Join the lines of each paragraph of help: Typer keeps the breaks of the docstring, whatever the terminal's width."""
    if command.help:
        paragraphs = cleandoc(command.help).split("\n\n")
        command.help = "\n\n".join(each.replace("\n", " ") for each in paragraphs)
    for each in getattr(command, "commands", {}).values():
        _unwrapped(each)
    return command


app = typer.Typer(
    name="lakebed",
    cls=_Commands,
    help="Git for data lakes: branches, commits and merges over object storage.",
    epilog="Things are named [cyan]lakebed://repo/ref/path[/]; the scheme may be left out. "
    "A server is found by LAKEBED_ENDPOINT, LAKEBED_ACCESS_KEY_ID and LAKEBED_SECRET_ACCESS_KEY, "
    "or by lakectl's own settings; [cyan]lakebed doctor[/] says whether that works.",
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
    try:
        app()
    except LakebedError as error:
        show(error)
        sys.exit(exit_code_of(error))
