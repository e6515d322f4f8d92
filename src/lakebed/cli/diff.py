"""`lakebed diff`."""

from typing import Annotated, Final

import typer
from rich.text import Text

from lakebed.cli.arguments import RefArgument
from lakebed.cli.output import JsonOption, console, print_json_list, say
from lakebed.client.client import Client
from lakebed.client.uri import parse_other_ref, parse_ref

_SIGNS: Final = {
    "added": ("+", "green"),
    "removed": ("-", "red"),
    "changed": ("~", "yellow"),
    "conflict": ("x", "bold red"),
    "prefix_changed": ("~", "yellow"),
}


def diff(
    left: RefArgument,
    right: Annotated[
        str | None,
        typer.Argument(metavar="REF", help="The other ref; without it, what is uncommitted on the branch."),
    ] = None,
    *,
    two_dot: Annotated[
        bool, typer.Option("--two-dot", help="Compare the two as they are, not since they parted.")
    ] = False,
    prefix: Annotated[str, typer.Option(help="Only paths that begin with this.")] = "",
    fold: Annotated[bool, typer.Option("--fold", help="Show folders instead of what is in them.")] = False,
    limit: Annotated[int | None, typer.Option("--limit", "-n", min=1, help="Print at most so many.")] = None,
    json: JsonOption = False,
) -> None:
    """Show what REF has that the first one has not: [green]+[/] added, [red]-[/] removed, [yellow]~[/] changed.

    Example: lakebed diff lakebed://shop/main fix
    """
    uri, delimiter = parse_ref(left), "/" if fold else ""
    with Client() as client:
        repo = client.repo(uri.repo)
        if right is None:
            found = repo.branch(uri.ref).uncommitted(prefix=prefix, delimiter=delimiter, limit=limit)
        else:
            other = parse_other_ref(right, uri.repo)
            found = repo.ref(uri.ref).diff(
                other, prefix=prefix, delimiter=delimiter, two_dot=two_dot, limit=limit
            )
        if json:
            print_json_list(found)
            return
        out, count = console(), 0
        for change in found:
            sign, style = _SIGNS.get(change.type, ("?", ""))
            out.print(Text.assemble((f"{sign} ", style), change.path), soft_wrap=True)
            count += 1
    if not count:
        say("No differences." if right is not None else "Nothing uncommitted.")
