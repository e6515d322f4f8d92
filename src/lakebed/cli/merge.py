"""`lakebed merge`."""

from enum import StrEnum
from typing import Annotated

import typer

from lakebed.cli.arguments import MetadataOption, RefArgument
from lakebed.cli.output import JsonOption, parse_pairs, print_json, say, short
from lakebed.client.branch import Strategy
from lakebed.client.client import Client
from lakebed.client.uri import parse_other_ref, parse_ref


class Winner(StrEnum):
    """Who wins where both sides changed the same path."""

    SOURCE = "source-wins"
    DEST = "dest-wins"


_STRATEGIES: dict[Winner | None, Strategy] = {
    None: "",
    Winner.SOURCE: "source-wins",
    Winner.DEST: "dest-wins",
}


def merge(
    source: RefArgument,
    into: Annotated[
        str,
        typer.Argument(
            metavar="BRANCH", help="The branch of the same repository that takes it.", show_default=False
        ),
    ],
    *,
    message: Annotated[str, typer.Option("--message", "-m", help="The merge's message.")] = "",
    meta: MetadataOption = None,
    strategy: Annotated[
        Winner | None,
        typer.Option(help="Who wins where both changed the same path; otherwise it is a conflict."),
    ] = None,
    squash: Annotated[
        bool, typer.Option("--squash", help="One commit, without the source's history.")
    ] = False,
    allow_empty: Annotated[bool, typer.Option("--allow-empty", help="Merge even without changes.")] = False,
    json: JsonOption = False,
) -> None:
    """Merge a ref into a branch: all of it at once, or nothing.

    Example: lakebed merge lakebed://shop/fix main -m "Take the correction"
    """
    uri = parse_ref(source)
    dest = parse_other_ref(into, uri.repo)
    with Client() as client:
        commit_id = (
            client.repo(uri.repo)
            .branch(dest)
            .merge(
                uri.ref,
                message=message,
                metadata=parse_pairs(meta or []),
                strategy=_STRATEGIES[strategy],
                squash=squash,
                allow_empty=allow_empty,
            )
        )
    if json:
        print_json({"reference": commit_id})
    else:
        say("merged {} into {}, commit {}", uri.ref, dest, short(commit_id))
