"""`lakebed commit`."""

from typing import Annotated

import typer

from lakebed.cli.arguments import BranchArgument, MessageOption, MetadataOption
from lakebed.cli.branch import branch_of
from lakebed.cli.output import JsonOption, parse_pairs, print_json, say, short
from lakebed.client.client import Client


def commit(
    branch: BranchArgument,
    *,
    message: MessageOption,
    meta: MetadataOption = None,
    allow_empty: Annotated[bool, typer.Option("--allow-empty", help="Commit even without changes.")] = False,
    take_staged: Annotated[
        bool,
        typer.Option(
            "--take-staged",
            help="Commit also what equals the committed objects: their bytes were lost and uploaded again.",
        ),
    ] = False,
    json: JsonOption = False,
) -> None:
    """Commit what is uncommitted on a branch.

    Example: lakebed commit lakebed://shop/main -m "Add prices" --meta job=17
    """
    with Client() as client:
        handle = branch_of(client, branch)
        made = handle.commit(
            message, metadata=parse_pairs(meta or []), allow_empty=allow_empty, take_staged=take_staged
        )
    if json:
        print_json(made)
    else:
        say("commit {} on {}: {}", short(made.id), handle.name, made.message)
