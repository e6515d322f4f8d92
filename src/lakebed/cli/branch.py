"""`lakebed branch`."""

from typing import Annotated

import typer

from lakebed.cli.arguments import BranchArgument, RepoArgument
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
from lakebed.client.branch import Branch
from lakebed.client.client import Client
from lakebed.client.uri import parse_ref, parse_repo

app = typer.Typer(help="Create, list, reset and delete branches.", no_args_is_help=True)

CommitArgument = Annotated[
    str,
    typer.Argument(metavar="COMMIT", help="A commit, or an expression such as main~1.", show_default=False),
]
ParentOption = Annotated[
    int,
    typer.Option(help="Of a merge: against which of its parents, counted from 1.", show_default=False),
]


def branch_of(client: Client, text: str) -> Branch:
    """Return the branch that an argument names."""
    uri = parse_ref(text)
    return client.repo(uri.repo).branch(uri.ref)


@app.command("list")
def list_branches(
    repo: RepoArgument,
    *,
    hidden: Annotated[bool, typer.Option("--hidden", help="Hidden ones too.")] = False,
    limit: LimitOption = 1000,
    json: JsonOption = False,
) -> None:
    """List the branches of a repository."""
    with Client() as client:
        found = client.repo(parse_repo(repo)).branches(show_hidden=hidden, limit=limit)
        if json:
            print_json_list(found)
            return
        print_table(("branch", "commit"), ((each.id, each.commit_id) for each in found), empty="No branches.")


@app.command()
def create(
    branch: BranchArgument,
    *,
    source: Annotated[
        str | None, typer.Option("--source", "-s", help="Where it begins; the default branch unless given.")
    ] = None,
    json: JsonOption = False,
) -> None:
    """Create a branch. No object is copied.

    Example: lakebed branch create lakebed://shop/fix --source v1
    """
    with Client() as client:
        handle = branch_of(client, branch)
        origin = source or client.repo(handle.repo).info().default_branch
        commit_id = handle.create(origin)
    if json:
        print_json({"id": handle.name, "commit_id": commit_id})
    else:
        say("branch {} on {}, commit {}", handle.name, origin, short(commit_id))


@app.command()
def show(branch: BranchArgument, *, json: JsonOption = False) -> None:
    """Show a branch and its commit."""
    with Client() as client:
        found = branch_of(client, branch).info()
    if json:
        print_json(found)
    else:
        say("branch {} is at commit {}", found.id, found.commit_id)


@app.command()
def delete(branch: BranchArgument, *, yes: YesOption = False, json: JsonOption = False) -> None:
    """Delete a branch, and what is uncommitted on it."""
    with Client() as client:
        handle = branch_of(client, branch)
        confirm(f"Delete branch {handle.name} and what is uncommitted on it?", yes=yes)
        handle.delete()
    say_done("deleted {}", handle.name, json=json, deleted=handle.name)


@app.command()
def reset(
    branch: BranchArgument,
    *,
    path: Annotated[str | None, typer.Option(help="Only this object.")] = None,
    prefix: Annotated[str | None, typer.Option(help="Only what begins with this.")] = None,
    yes: YesOption = False,
    json: JsonOption = False,
) -> None:
    """Throw away what is uncommitted."""
    if path is not None and prefix is not None:
        raise typer.BadParameter("--path and --prefix exclude each other")
    with Client() as client:
        handle = branch_of(client, branch)
        confirm(f"Throw away what is uncommitted on {handle.name}?", yes=yes)
        handle.reset(path=path, prefix=prefix)
    say_done("reset {}", handle.name, json=json, reset=handle.name)


@app.command()
def revert(
    branch: BranchArgument, commit: CommitArgument, *, parent: ParentOption = 0, json: JsonOption = False
) -> None:
    """Undo a commit by a new one.

    Example: lakebed branch revert lakebed://shop/main main~1
    """
    with Client() as client:
        handle = branch_of(client, branch)
        handle.revert(commit, parent_number=parent)
        made = handle.info()
    say_done(
        "reverted {} on {}, commit {}",
        *(commit, handle.name, short(made.commit_id)),
        json=json,
        id=made.id,
        commit_id=made.commit_id,
    )


@app.command("cherry-pick")
def cherry_pick(
    branch: BranchArgument, commit: CommitArgument, *, parent: ParentOption = 0, json: JsonOption = False
) -> None:
    """Repeat a commit on another branch."""
    with Client() as client:
        handle = branch_of(client, branch)
        made = handle.cherry_pick(commit, parent_number=parent)
    if json:
        print_json(made)
    else:
        say("picked {} on {}, commit {}", commit, handle.name, short(made.id))
