"""The repositories to try things with: `quickstart`, and `sample`: a day with a data lake, told while it happens."""

from rich.console import Console
from rich.markup import escape

from lakebed.catalog.diffs import DiffQuery
from lakebed.catalog.sample import SAMPLE_BRANCH, SAMPLE_TAG
from lakebed.catalog.session import Session
from lakebed.errors import AlreadyExistsError, LakebedError
from lakebed.versioning.commit import CommitRequest

REPO = "sample"
_NAMESPACE = "local://sample"
QUICKSTART_REPO = "quickstart"


async def make_quickstart(catalog: Session, out: Console) -> None:
    """Create the repository that lakeFS's tutorials read. A server starts without it where it cannot be created."""
    try:
        await catalog.repositories.create(QUICKSTART_REPO, f"local://{QUICKSTART_REPO}")
        await catalog.samples.fill(QUICKSTART_REPO, "main")
    except LakebedError as error:
        out.print(f"No repository {QUICKSTART_REPO}: {error}\n", markup=False, soft_wrap=True)
        return
    out.print(f"A repository [cyan]{QUICKSTART_REPO}[/] with a table: lakes.parquet\n")


async def make_sample(catalog: Session, out: Console) -> None:
    """Create the repository and say each step; if it is there, say so and leave it alone."""
    out.print(f"[bold]1.[/] a repository [cyan]{REPO}[/], its objects under {_NAMESPACE}")
    try:
        await catalog.repositories.create(REPO, _NAMESPACE)
    except AlreadyExistsError:
        out.print("   it is there already: delete the data folder to start over")
        return
    made = await catalog.samples.fill_with_history(REPO)
    out.print(f"[bold]2.[/] three objects written to [cyan]main[/] and committed: {made.first.id[:12]}")
    out.print(
        f"[bold]3.[/] a branch [cyan]{SAMPLE_BRANCH}[/], where a day was corrected and another added; main saw none of it:",
        soft_wrap=True,
    )
    page = await catalog.diffs.diff(REPO, made.first.id, made.fixed.id, DiffQuery(), two_dot=True)
    print_diff(out, page.rows.column("type").to_pylist(), page.rows.column("key").to_pylist())
    out.print(f"[bold]4.[/] committed there, and merged into main at once: {made.merged.id[:12]}")
    out.print(f"[bold]5.[/] a tag [cyan]{SAMPLE_TAG}[/] on it, which will never move\n")


def print_diff(out: Console, types: list[str], paths: list[str]) -> None:
    """Print differences, a line each."""
    signs = {
        "added": "[green]+[/]",
        "removed": "[red]-[/]",
        "changed": "[yellow]~[/]",
        "conflict": "[red]x[/]",
    }
    for kind, path in zip(types, paths, strict=True):
        out.print(f"   {signs[kind]} {escape(path)}", soft_wrap=True)


def commit_request(message: str) -> CommitRequest:
    """Return what the sample says about a commit."""
    return CommitRequest(committer="demo", message=message)
