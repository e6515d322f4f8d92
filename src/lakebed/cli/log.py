"""`lakebed log`."""

from typing import Annotated

import typer

from lakebed.cli.arguments import RefArgument
from lakebed.cli.output import JsonOption, LimitOption, moment, print_json_list, print_table, short
from lakebed.client.client import Client
from lakebed.client.uri import parse_uri
from lakebed.errors import ErrorKind, InvalidInputError


def log(
    ref: RefArgument,
    *,
    limit: LimitOption = 20,
    first_parent: Annotated[
        bool, typer.Option("--first-parent", help="Leave out what was merged in.")
    ] = False,
    since: Annotated[str | None, typer.Option(help="Nothing older, as 2026-01-31T00:00:00Z.")] = None,
    json: JsonOption = False,
) -> None:
    """Show the history of a ref, newest first; with a path, of that object or folder.

    Example: lakebed log lakebed://shop/main/prices/
    """
    uri = parse_uri(ref)
    if not uri.ref:
        raise InvalidInputError(ErrorKind.INVALID_ARGUMENT, f"{ref!r} must be lakebed://repo/ref")
    is_folder = uri.path.endswith("/")
    with Client() as client:
        found = (
            client.repo(uri.repo)
            .ref(uri.ref)
            .log(
                limit=limit,
                first_parent=first_parent,
                since=since,
                objects=[uri.path] if uri.path and not is_folder else [],
                prefixes=[uri.path] if is_folder else [],
            )
        )
        if json:
            print_json_list(found)
            return
        rows = (
            (short(each.id), moment(each.creation_date), each.committer or "-", _first_line(each.message))
            for each in found
        )
        print_table(("commit", "date (UTC)", "committer", "message"), rows, empty="No commits.")


def _first_line(message: str) -> str:
    lines = message.splitlines()
    return lines[0] if lines else ""
