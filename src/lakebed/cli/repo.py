"""`lakebed repo`."""

from typing import Annotated

import typer

from lakebed.cli import rules
from lakebed.cli.arguments import RepoArgument
from lakebed.cli.output import (
    JsonOption,
    LimitOption,
    YesOption,
    confirm,
    moment,
    print_fields,
    print_json,
    print_json_list,
    print_table,
    say,
    say_done,
)
from lakebed.client.client import Client
from lakebed.client.uri import parse_repo

app = typer.Typer(help="Create, list and delete repositories, and set their rules.", no_args_is_help=True)


@app.command("list")
def list_repositories(*, limit: LimitOption = 1000, json: JsonOption = False) -> None:
    """List the repositories that you may see."""
    with Client() as client:
        found = client.repositories(limit=limit)
        if json:
            print_json_list(found)
            return
        rows = (
            (each.id, each.default_branch, each.storage_namespace, moment(each.creation_date))
            for each in found
        )
        print_table(
            ("repository", "default branch", "storage", "created"),
            rows,
            empty="No repositories yet: create one with `lakebed repo create`.",
        )


@app.command()
def create(
    repo: RepoArgument,
    storage: Annotated[
        str,
        typer.Argument(
            metavar="STORAGE",
            help="An empty place, such as s3://bucket/prefix or local://name.",
            show_default=False,
        ),
    ],
    *,
    default_branch: Annotated[str, typer.Option(help="The first branch.")] = "main",
    bare: Annotated[
        bool, typer.Option(help="Without a branch or commit, for `refs restore`. STORAGE may hold data.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """Create a repository over an empty place in the object store.

    Example: lakebed repo create lakebed://shop s3://bucket/shop
    """
    with Client() as client:
        made = client.repo(parse_repo(repo)).create(storage, default_branch=default_branch, bare=bare)
    if json:
        print_json(made)
    else:
        say(
            "repository {} with branch {}, its objects under {}",
            made.id,
            made.default_branch,
            made.storage_namespace,
        )


@app.command()
def show(repo: RepoArgument, *, json: JsonOption = False) -> None:
    """Show a repository."""
    with Client() as client:
        found = client.repo(parse_repo(repo)).info()
    if json:
        print_json(found)
        return
    print_fields(
        [
            ("repository", found.id),
            ("default branch", found.default_branch),
            ("storage", found.storage_namespace),
            ("created", moment(found.creation_date)),
            ("read-only", "yes" if found.read_only else "no"),
        ]
    )


@app.command()
def delete(
    repo: RepoArgument,
    *,
    force: Annotated[bool, typer.Option(help="Delete a read-only one too.")] = False,
    yes: YesOption = False,
    json: JsonOption = False,
) -> None:
    """Delete a repository, its branches, tags and history. Objects stay in storage."""
    name = parse_repo(repo)
    confirm(f"Delete repository {name} and its history?", yes=yes)
    with Client() as client:
        client.repo(name).delete(force=force)
    say_done("deleted {}", name, json=json, deleted=name)


# Last, so that they come last in the help.
app.add_typer(rules.app)
