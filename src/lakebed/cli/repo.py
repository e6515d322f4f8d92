"""`lakebed repo`."""

from typing import Annotated

import typer

from lakebed.cli import adopting, rules
from lakebed.cli.arguments import RepoArgument
from lakebed.cli.output import (
    JsonOption,
    LimitOption,
    YesOption,
    confirm,
    confirm_by_name,
    moment,
    print_fields,
    print_json,
    print_json_list,
    print_table,
    say,
    say_done,
    size,
)
from lakebed.client.client import Client
from lakebed.client.replies import StorageUse
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
    elif bare:
        say(
            "bare repository {}, without branches, its objects under {}: `lakebed refs restore` fills it",
            made.id,
            made.storage_namespace,
        )
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
    with_data: Annotated[
        bool, typer.Option("--with-data", help="Delete its objects in storage too, for good.")
    ] = False,
    yes: YesOption = False,
    json: JsonOption = False,
) -> None:
    """Delete a repository, its branches, tags and history. Objects stay in storage unless --with-data."""
    name = parse_repo(repo)
    with Client() as client:
        handle = client.repo(name)
        if not with_data:
            confirm(f"Delete repository {name} and its history?", yes=yes)
            handle.delete(force=force)
            say_done("deleted {}; its objects stay in storage", name, json=json, deleted=name)
            return
        use = handle.storage_use()
        warning = f"Repository {name}, its history and its data go for good: {_described(use)}."
        confirm_by_name(warning, name, yes=yes)
        handle.delete(force=force, with_data=True)
    say_done("deleted {}; {}", name, _freed(use), json=json, deleted=name, freed=use)


@app.command()
def purge(
    storage: Annotated[
        str,
        typer.Argument(
            metavar="STORAGE",
            help="Where the repository lay, such as s3://bucket/prefix or local://name.",
            show_default=False,
        ),
    ],
    *,
    yes: YesOption = False,
    json: JsonOption = False,
) -> None:
    """Free the storage of a repository that was deleted without its data.

    Nothing happens if the place belongs to a repository, of this or of another installation, or if something lies there
    that no repository has put there.
    """
    with Client() as client:
        use = client.purge(storage, dry_run=True)
        warning = f"What a deleted repository has left in {storage} goes for good: {_described(use)}."
        confirm_by_name(warning, storage, yes=yes)
        use = client.purge(storage)
    say_done("purged {}; {}", storage, _freed(use), json=json, purged=storage, freed=use)


def _described(use: StorageUse) -> str:
    least = "" if use.complete else "at least "
    return f"{least}{use.objects:,} objects and {use.files:,} files of its own, {least}{size(use.bytes)}"


def _freed(use: StorageUse) -> str:
    return f"{size(use.bytes)} are free in {use.grace_seconds / 60:.0f} minutes"


app.command()(adopting.adopt)
app.command()(adopting.orphans)

# Last, so that they come last in the help.
app.add_typer(rules.app)
