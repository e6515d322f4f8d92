"""`lakebed tag`."""

from typing import Annotated

import typer

from lakebed.cli.arguments import RepoArgument, TagArgument
from lakebed.cli.output import (
    JsonOption,
    LimitOption,
    YesOption,
    confirm,
    print_json,
    print_json_list,
    print_table,
    say,
    say_done,
    short,
)
from lakebed.client.client import Client
from lakebed.client.tag import Tag
from lakebed.client.uri import parse_ref, parse_repo

app = typer.Typer(help="Name commits, for good: a tag never moves.", no_args_is_help=True)


def _tag(client: Client, text: str) -> Tag:
    uri = parse_ref(text)
    return client.repo(uri.repo).tag(uri.ref)


@app.command("list")
def list_tags(repo: RepoArgument, *, limit: LimitOption = 1000, json: JsonOption = False) -> None:
    """List the tags of a repository."""
    with Client() as client:
        found = client.repo(parse_repo(repo)).tags(limit=limit)
        if json:
            print_json_list(found)
            return
        print_table(("tag", "commit"), ((each.id, each.commit_id) for each in found), empty="No tags.")


@app.command()
def create(
    tag: TagArgument,
    ref: Annotated[
        str,
        typer.Argument(metavar="REF", help="What to name: a branch, a commit, main~2.", show_default=False),
    ],
    *,
    json: JsonOption = False,
) -> None:
    """Give a commit a name that never moves.

    Example: lakebed tag create lakebed://shop/v1 main
    """
    with Client() as client:
        made = _tag(client, tag).create(ref)
    if json:
        print_json(made)
    else:
        say("tag {} on commit {}", made.id, short(made.commit_id))


@app.command()
def show(tag: TagArgument, *, json: JsonOption = False) -> None:
    """Show a tag and its commit."""
    with Client() as client:
        found = _tag(client, tag).info()
    if json:
        print_json(found)
    else:
        say("tag {} is commit {}", found.id, found.commit_id)


@app.command()
def delete(tag: TagArgument, *, yes: YesOption = False, json: JsonOption = False) -> None:
    """Delete a tag. Its commit stays."""
    with Client() as client:
        handle = _tag(client, tag)
        confirm(f"Delete tag {handle.name}?", yes=yes)
        handle.delete()
    say_done("deleted {}", handle.name, json=json, deleted=handle.name)
