"""The sample repository: a day with a data lake, told while it happens."""

from rich.console import Console
from rich.markup import escape

from lakebed.catalog.diffs import DiffQuery
from lakebed.catalog.session import Session
from lakebed.errors import AlreadyExistsError
from lakebed.versioning.commit import CommitRequest
from lakebed.versioning.merge import MergeRequest

REPO = "sample"
_NAMESPACE = "local://sample"


async def make_sample(catalog: Session, out: Console) -> None:
    """Create the repository and say each step; if it is there, say so and leave it alone."""
    out.print(f"[bold]1.[/] a repository [cyan]{REPO}[/], its objects under {_NAMESPACE}")
    try:
        await catalog.repositories.create(REPO, _NAMESPACE)
    except AlreadyExistsError:
        out.print("   it is there already: delete the data folder to start over")
        return
    for day in ("2026-01-01", "2026-01-02"):
        await catalog.objects.upload(REPO, "main", f"sales/day={day}/part-0.csv", b"item,price\nanchor,12\n")
    await catalog.objects.upload(REPO, "main", "README.md", b"# A sample lake\n")
    first = await catalog.commits.commit(REPO, "main", commit_request("First two days"))
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
    print_diff(out, page.rows.column("type").to_pylist(), page.rows.column("key").to_pylist())

    await catalog.commits.commit(REPO, "fix-prices", commit_request("Correct the prices"))
    merged = await catalog.diffs.merge(
        REPO, "fix-prices", "main", MergeRequest(commit=commit_request("Merge 'fix-prices' into 'main'"))
    )
    out.print(f"[bold]4.[/] committed there, and merged into main at once: {merged.commit.id[:12]}")
    await catalog.tags.create(REPO, "v1", "main")
    out.print("[bold]5.[/] a tag [cyan]v1[/] on it, which will never move\n")


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
