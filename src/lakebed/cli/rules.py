"""The rules of a repository, as commands of `lakebed repo`: which branches are protected, how long data is kept."""

from typing import Annotated

import typer

from lakebed.cli.arguments import RepoArgument
from lakebed.cli.output import (
    JsonOption,
    parse_pairs,
    print_json,
    print_json_list,
    print_table,
    say,
    say_done,
)
from lakebed.client.client import Client
from lakebed.client.replies import GcRules
from lakebed.client.uri import parse_repo

app = typer.Typer()

PatternArgument = Annotated[
    str,
    typer.Argument(
        metavar="PATTERN", help="Names of branches, such as main or release-*.", show_default=False
    ),
]


@app.command()
def protected(repo: RepoArgument, *, json: JsonOption = False) -> None:
    """List the patterns of branches that only merges may change."""
    with Client() as client:
        found = client.repo(parse_repo(repo)).settings.protected()
    if json:
        print_json_list(found)
    else:
        print_table(("pattern",), ((each,) for each in found), empty="No branch is protected.")


@app.command()
def protect(repo: RepoArgument, pattern: PatternArgument, *, json: JsonOption = False) -> None:
    """Let only merges change the branches that match a pattern.

    Example: lakebed repo protect lakebed://shop main
    """
    with Client() as client:
        client.repo(parse_repo(repo)).settings.protect(pattern)
    say_done("only merges change {} from now on", pattern, json=json, pattern=pattern, protected=True)


@app.command()
def unprotect(repo: RepoArgument, pattern: PatternArgument, *, json: JsonOption = False) -> None:
    """Let whoever may write change the branches that match a pattern."""
    with Client() as client:
        client.repo(parse_repo(repo)).settings.unprotect(pattern)
    say_done("{} is no longer protected", pattern, json=json, pattern=pattern, protected=False)


@app.command()
def retention(
    repo: RepoArgument,
    *,
    days: Annotated[
        int | None, typer.Option(min=0, help="Set the rules: days that everything is kept in general.")
    ] = None,
    branch: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=DAYS", help="Days of one branch, with --days; may be repeated."),
    ] = None,
    clear: Annotated[bool, typer.Option("--clear", help="Remove the rules.")] = False,
    json: JsonOption = False,
) -> None:
    """Show, set or remove the rules of how long what no branch shows any more is kept.

    Example: lakebed repo retention lakebed://shop --days 30 --branch main=90
    """
    if (clear and days is not None) or (branch and days is None):
        raise typer.BadParameter("--branch goes with --days, and --clear with neither")
    with Client() as client:
        settings = client.repo(parse_repo(repo)).settings
        if clear:
            settings.delete_gc_rules()
        elif days is not None:
            settings.set_gc_rules(days, branches=_days_of(branch or []))
        found = settings.gc_rules()
    print_json(found) if json else _print_rules(found)


def _days_of(pairs: list[str]) -> dict[str, int]:
    found = parse_pairs(pairs)
    for name, days in found.items():
        if not days.isascii() or not days.isdigit():
            raise typer.BadParameter(f"{name}={days}: days are a number")
    return {name: int(days) for name, days in found.items()}


def _print_rules(rules: GcRules | None) -> None:
    if rules is None:
        say("No rules: everything is kept.")
        return
    rows = [("(others)", rules.default_retention_days)]
    rows += [(rule.branch_id, rule.retention_days) for rule in rules.branches]
    print_table(("branch", "days"), ((name, str(days)) for name, days in rows), empty="")
