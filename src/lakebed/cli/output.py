"""How commands print: tables for people, JSON for programs, nothing cut off in a pipe."""

import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any

import msgspec
import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]
LimitOption = Annotated[int, typer.Option("--limit", "-n", min=1, help="Print at most so many.")]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]

# A pipe has no width: nothing is cut or wrapped there.
_PIPE_WIDTH = 4096


def console() -> Console:
    """Return standard output."""
    return Console(highlight=False, width=None if sys.stdout.isatty() else _PIPE_WIDTH)


def say(text: str, *parts: Any) -> None:
    """Print a sentence; the parts, which may hold anything, fill its braces in cyan."""
    line = Text()
    for plain, part in zip(text.split("{}"), [*parts, ""], strict=True):
        line.append(plain).append(str(part), "cyan")
    console().print(line, soft_wrap=True)


def say_done(text: str, *parts: Any, json: bool, **fields: Any) -> None:
    """Print what was done: a sentence whose braces the parts fill, or with `json` the fields."""
    if json:
        print_json(fields)
    else:
        say(text, *parts)


def print_json(value: Any) -> None:
    """Print one value."""
    sys.stdout.write(msgspec.json.format(msgspec.json.encode(value), indent=2).decode() + "\n")


def print_json_list(values: Iterable[Any]) -> None:
    """Print a list as its items come, one a line."""
    separator = "["
    for value in values:
        sys.stdout.write(f"{separator}\n  {msgspec.json.encode(value).decode()}")
        separator = ","
    sys.stdout.write("[]\n" if separator == "[" else "\n]\n")


def print_table(columns: Sequence[str], rows: Iterable[Sequence[str]], *, empty: str) -> None:
    """Print rows under their headings, or `empty` if there are none."""
    table = Table(*columns, box=None, header_style="bold", pad_edge=False)
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    if table.row_count:
        console().print(table)
    else:
        say(empty)


def print_fields(fields: Iterable[tuple[str, str]]) -> None:
    """Print names and values, one pair a line."""
    table = Table.grid(padding=(0, 2))
    for name, value in fields:
        table.add_row(Text(name, "bold"), Text(value))
    console().print(table)


def moment(seconds: int) -> str:
    """Return a time as people read it, in UTC so that everybody reads the same."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S")


def size(count: int) -> str:
    """Return a number of bytes as people read it.

    >>> size(1536)
    '1.5 KiB'
    """
    amount, unit = float(count), "B"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if amount < 1024:
            break
        amount, unit = amount / 1024, larger
    return f"{count} B" if unit == "B" else f"{amount:.1f} {unit}"


def short(commit_id: str) -> str:
    """Return as much of a commit id as is enough to name it."""
    return commit_id[:12]


def confirm(question: str, *, yes: bool) -> None:
    """Ask before something is lost; end the command unless the answer is yes."""
    if not yes:
        typer.confirm(question, abort=True)


def confirm_by_name(warning: str, name: str, *, yes: bool) -> None:
    """Say what is lost for good, and end the command unless `name` is typed."""
    if yes:
        return
    typer.echo(warning, err=True)
    if typer.prompt(f"Type {name} to go on", err=True, default="", show_default=False) != name:
        typer.echo("That is another name. Nothing was deleted.", err=True)
        raise typer.Abort


def parse_pairs(pairs: Sequence[str]) -> dict[str, str]:
    """Return `name=value` options as a mapping."""
    found: dict[str, str] = {}
    for pair in pairs:
        name, separator, value = pair.partition("=")
        if not separator or not name:
            raise typer.BadParameter(f"{pair!r} must be name=value")
        found[name] = value
    return found
