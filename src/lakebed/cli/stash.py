"""`lakebed stash`."""

from typing import Annotated, TypeAlias

import typer

from lakebed.cli.arguments import BranchArgument, RepoArgument
from lakebed.cli.branch import branch_of
from lakebed.cli.output import (
    JsonOption,
    YesOption,
    confirm,
    moment,
    print_json,
    print_json_list,
    print_table,
    say,
    say_done,
)
from lakebed.client.client import Client
from lakebed.client.uri import parse_repo

StashArgument: TypeAlias = Annotated[
    str, typer.Argument(metavar="STASH", help="Its id: `lakebed stash list` shows it.", show_default=False)
]

app = typer.Typer(
    help="Put uncommitted changes aside, bring them back, or give them up.", no_args_is_help=True
)


@app.command()
def push(
    branch: BranchArgument,
    *,
    message: Annotated[str, typer.Option("--message", "-m", help="What they are.")] = "",
    json: JsonOption = False,
) -> None:
    """Put everything uncommitted on a branch aside; the branch is clean afterwards."""
    with Client() as client:
        made = branch_of(client, branch).stash(message)
    if json:
        print_json(made)
    else:
        say("stash {} holds what was uncommitted on {}", made.id, made.branch)


@app.command("list")
def list_stashes(repo: RepoArgument, *, json: JsonOption = False) -> None:
    """List what was put aside, oldest first."""
    with Client() as client:
        found = client.repo(parse_repo(repo)).stashes()
        if json:
            print_json_list(found)
            return
        rows = ((each.id, each.branch, moment(each.creation_date), each.message) for each in found)
        print_table(("stash", "branch", "date (UTC)", "message"), rows, empty="Nothing was put aside.")


@app.command()
def pop(
    repo: RepoArgument,
    stash: StashArgument,
    *,
    into: Annotated[str, typer.Option(help="Another branch than the one it came from.")] = "",
    json: JsonOption = False,
) -> None:
    """Lay a stash over the branch it came from, or over another."""
    with Client() as client:
        popped = client.repo(parse_repo(repo)).pop_stash(stash, into=into)
    if json:
        print_json(popped)
    else:
        say("what {} held is uncommitted on {} again", popped.id, into or popped.branch)


@app.command()
def drop(
    repo: RepoArgument, stash: StashArgument, *, yes: YesOption = False, json: JsonOption = False
) -> None:
    """Give a stash up for good. Its rows are freed after the grace, its objects by garbage collection."""
    name = parse_repo(repo)
    confirm(f"Give up stash {stash} of {name}? Its changes cannot be brought back.", yes=yes)
    with Client() as client:
        client.repo(name).drop_stash(stash)
    say_done("dropped {}", stash, json=json, dropped=stash)
