"""`lakebed demo`: the engine at work on a sample repository, in one process, with no server.

Without a sub-command it walks through a day with a data lake and says what to type
next; the sub-commands are those next things.
"""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, TypeVar

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from lakebed.catalog.diffs import DiffQuery
from lakebed.catalog.session import Session
from lakebed.format.blocks import block_entries
from lakebed.refs.log import LogQuery
from lakebed.server.config import Config
from lakebed.server.installation import open_installation
from lakebed.server.sample import REPO, commit_request, make_sample, print_diff
from lakebed.versioning.merge import MergeRequest

T = TypeVar("T")

_DATA = Path("lakebed-data")

app = typer.Typer(
    help="The engine at work on a sample repository, without a server.", invoke_without_command=True
)
out = Console(highlight=False, emoji=False)

RefArgument = Annotated[str, typer.Argument(help="A branch, tag or commit.")]
DataOption = Annotated[Path, typer.Option("--data", help="The data folder.", envvar="LAKEBED_DATA")]


@app.callback()
def demo(context: typer.Context, data: DataOption = _DATA) -> None:
    """Walk through branches, commits and merges on a sample repository."""
    context.obj = data
    if context.invoked_subcommand is None:
        _run(data, lambda catalog: make_sample(catalog, out))
        _say_what_next(data)


@app.command()
def ls(
    context: typer.Context,
    ref: RefArgument = "main",
    prefix: Annotated[str, typer.Option(help="Only paths that begin with this.")] = "",
) -> None:
    """List the objects of a ref."""

    async def listed(catalog: Session) -> None:
        page = await catalog.objects.list(REPO, ref, prefix=prefix, amount=1000)
        table = Table("size", "path", box=None)
        for entry in block_entries(page.rows):
            table.add_row(str(entry.size_bytes), escape(entry.path))
        out.print(table)

    _run(context.obj, listed)


@app.command()
def cat(context: typer.Context, ref: str, path: str) -> None:
    """Print an object."""

    async def printed(catalog: Session) -> None:
        _, chunks = await catalog.objects.read(REPO, ref, path)
        async for chunk in chunks:
            typer.echo(chunk, nl=False)

    _run(context.obj, printed)


@app.command()
def write(context: typer.Context, branch: str, path: str, text: str) -> None:
    """Stage an object on a branch."""
    _run(context.obj, lambda catalog: catalog.objects.upload(REPO, branch, path, f"{text}\n".encode()))
    out.print(f"staged {path} on {branch}", markup=False, soft_wrap=True)


@app.command()
def branch(context: typer.Context, name: str, source: RefArgument = "main") -> None:
    """Create a branch: no object is copied."""
    commit_id = _run(context.obj, lambda catalog: catalog.branches.create(REPO, name, source))
    out.print(f"branch {name} is at {commit_id[:12]}")


@app.command()
def commit(
    context: typer.Context,
    branch: str,
    message: Annotated[str, typer.Option("--message", "-m", help="What was done, and why.")],
) -> None:
    """Commit what is staged on a branch."""
    made = _run(context.obj, lambda catalog: catalog.commits.commit(REPO, branch, commit_request(message)))
    out.print(f"commit {made.id[:12]} on {branch}")


@app.command()
def diff(context: typer.Context, left: str, right: str) -> None:
    """Show what differs between two refs; `lakebed demo diff main 'main$'` shows what is staged."""

    async def compared(catalog: Session) -> None:
        page = await catalog.diffs.diff(REPO, left, right, DiffQuery(amount=1000), two_dot=True)
        print_diff(out, page.rows.column("type").to_pylist(), page.rows.column("key").to_pylist())

    _run(context.obj, compared)


@app.command()
def merge(
    context: typer.Context, source: str, dest: Annotated[str, typer.Argument(help="The branch.")] = "main"
) -> None:
    """Merge a ref into a branch."""
    request = MergeRequest(commit=commit_request(f"Merge '{source}' into '{dest}'"))
    merged = _run(context.obj, lambda catalog: catalog.diffs.merge(REPO, source, dest, request))
    out.print(f"commit {merged.commit.id[:12]} on {dest}: {merged.counts.total} paths changed")


@app.command()
def log(context: typer.Context, ref: RefArgument = "main") -> None:
    """Show the history of a ref."""

    async def shown(catalog: Session) -> None:
        table = Table("commit", "committer", "message", box=None)
        for each in (await catalog.commits.log(REPO, ref, LogQuery())).results:
            table.add_row(each.id[:12], escape(each.committer), escape(each.message))
        out.print(table)

    _run(context.obj, shown)


def _say_what_next(data: Path) -> None:
    command = "lakebed demo" if data == _DATA else f"lakebed demo --data {data}"
    out.print("Go on from here (in this folder, [dim].venv/bin/lakebed[/] is the command):\n")
    for line in (
        "log",
        "ls main",
        "cat main~1 sales/day=2026-01-02/part-0.csv",
        "branch try main",
        'write try notes.txt "hello"',
        "diff main 'try$'",
        'commit try -m "Add notes"',
        "merge try main",
    ):
        out.print(f"  {command} {line}", markup=False, soft_wrap=True)
    out.print(f"\nThe lake is in {data.absolute()}", markup=False, soft_wrap=True)


def _run(data: Path, use: Callable[[Session], Awaitable[T]]) -> T:
    async def main() -> T:
        async with open_installation(Config(data=data)) as wired:
            return await use(wired.catalog)

    return asyncio.run(main())
