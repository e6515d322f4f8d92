"""`lakebed import`."""

from typing import Annotated

import typer
from rich.console import Console

from lakebed.cli.arguments import DestinationArgument, MetadataOption
from lakebed.cli.output import JsonOption, parse_pairs, print_json, say, short
from lakebed.client.client import Client
from lakebed.client.uri import parse_object


def import_objects(
    source: Annotated[
        str,
        typer.Argument(
            metavar="ADDRESS", help="Where they lie, such as s3://bucket/prefix/.", show_default=False
        ),
    ],
    to: DestinationArgument,
    *,
    message: Annotated[str, typer.Option("--message", "-m", help="The commit's message.")] = "",
    meta: MetadataOption = None,
    single: Annotated[bool, typer.Option("--object", help="ADDRESS is one object, not a prefix.")] = False,
    no_wait: Annotated[bool, typer.Option("--no-wait", help="Start it and leave.")] = False,
    json: JsonOption = False,
) -> None:
    """Bring objects that lie in storage already into a branch, as a commit. Nothing is copied.

    The server must allow it: its import prefixes say what may be imported.

    Example: lakebed import s3://bucket/raw/ lakebed://shop/main/raw/
    """
    uri = parse_object(to, path_required=False)
    with Client() as client:
        branch = client.repo(uri.repo).branch(uri.ref)
        started = branch.start_import(
            source, uri.path, message=message, metadata=parse_pairs(meta or []), is_object=single
        )
        if no_wait:
            print_json({"id": started.id}) if json else say("import {} is under way", started.id)
            return
        with Console(stderr=True).status("importing …") as status:
            commit = started.wait(
                on_progress=lambda now: status.update(f"importing … {now.ingested_objects} objects")
            )
    if json:
        print_json(commit)
    else:
        say("imported {} into {}, commit {}", source, str(uri), short(commit.id))
