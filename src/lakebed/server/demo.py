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
from lakebed.errors import AlreadyExistsError
from lakebed.format.blocks import block_entries
from lakebed.refs.log import LogQuery
from lakebed.server.config import Config
from lakebed.server.installation import open_installation
from lakebed.versioning.commit import CommitRequest
from lakebed.versioning.merge import MergeRequest

T = TypeVar("T")

REPO = "sample"
_NAMESPACE = "local://sample"
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
        _run(data, _walk_through)
        _say_what_next(data)


@app.command()
def ls(context: typer.Context, ref: RefArgument = "main", prefix: str = "") -> None:
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
    context: typer.Context, branch: str, message: Annotated[str, typer.Option("--message", "-m")]
) -> None:
    """Commit what is staged on a branch."""
    made = _run(context.obj, lambda catalog: catalog.commits.commit(REPO, branch, _request(message)))
    out.print(f"commit {made.id[:12]} on {branch}")


@app.command()
def diff(context: typer.Context, left: str, right: str) -> None:
    """Show what differs between two refs; `lakebed demo diff main 'main$'` shows what is staged."""

    async def compared(catalog: Session) -> None:
        page = await catalog.diffs.diff(REPO, left, right, DiffQuery(amount=1000), two_dot=True)
        _print_diff(page.rows.column("type").to_pylist(), page.rows.column("key").to_pylist())

    _run(context.obj, compared)


@app.command()
def merge(
    context: typer.Context, source: str, dest: Annotated[str, typer.Argument(help="The branch.")] = "main"
) -> None:
    """Merge a ref into a branch."""
    request = MergeRequest(commit=_request(f"Merge '{source}' into '{dest}'"))
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


async def _walk_through(catalog: Session) -> None:
    out.print(f"[bold]1.[/] a repository [cyan]{REPO}[/], its objects under {_NAMESPACE}")
    try:
        await catalog.repositories.create(REPO, _NAMESPACE)
    except AlreadyExistsError:
        out.print("   it is there already: delete the data folder to start over")
        return
    for day in ("2026-01-01", "2026-01-02"):
        await catalog.objects.upload(REPO, "main", f"sales/day={day}/part-0.csv", b"item,price\nanchor,12\n")
    await catalog.objects.upload(REPO, "main", "README.md", b"# A sample lake\n")
    first = await catalog.commits.commit(REPO, "main", _request("First two days"))
    out.print(f"[bold]2.[/] three objects written to [cyan]main[/] and committed: {first.id[:12]}")

    await catalog.branches.create(REPO, "fix-prices", "main")
    await catalog.objects.upload(
        REPO, "fix-prices", "sales/day=2026-01-02/part-0.csv", b"item,price\nanchor,13\n"
    )
    await catalog.objects.upload(
        REPO, "fix-prices", "sales/day=2026-01-03/part-0.csv", b"item,price\nrope,4\n"
    )
    out.print(
        "[bold]3.[/] a branch [cyan]fix-prices[/], where a day is corrected and another added; main sees none of it:"
    )
    page = await catalog.diffs.uncommitted(REPO, "fix-prices", DiffQuery())
    _print_diff(page.rows.column("type").to_pylist(), page.rows.column("key").to_pylist())

    await catalog.commits.commit(REPO, "fix-prices", _request("Correct the prices"))
    merged = await catalog.diffs.merge(
        REPO, "fix-prices", "main", MergeRequest(commit=_request("Merge 'fix-prices' into 'main'"))
    )
    out.print(f"[bold]4.[/] committed there, and merged into main at once: {merged.commit.id[:12]}")
    await catalog.tags.create(REPO, "v1", "main")
    out.print("[bold]5.[/] a tag [cyan]v1[/] on it, which will never move\n")


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


def _print_diff(types: list[str], paths: list[str]) -> None:
    signs = {
        "added": "[green]+[/]",
        "removed": "[red]-[/]",
        "changed": "[yellow]~[/]",
        "conflict": "[red]x[/]",
    }
    for kind, path in zip(types, paths, strict=True):
        out.print(f"   {signs[kind]} {escape(path)}", soft_wrap=True)


def _request(message: str) -> CommitRequest:
    return CommitRequest(committer="demo", message=message)


def _run(data: Path, use: Callable[[Session], Awaitable[T]]) -> T:
    async def main() -> T:
        async with open_installation(Config(data=data)) as wired:
            return await use(wired.catalog)

    return asyncio.run(main())
