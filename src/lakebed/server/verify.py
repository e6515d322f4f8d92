"""`lakebed verify`: look through everything that a repository's refs lead to.

It opens the installation itself rather than asking a server, so that it works when no
server starts any more. It writes nothing but a pin, and may run beside one that does.
"""

import asyncio
import sys
from collections import Counter
from dataclasses import asdict, dataclass, field
from typing import Annotated, Any, Final

import msgspec
import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from lakebed.model.ids import parse_repo_name
from lakebed.model.words import counted
from lakebed.server.config import Config, load_config
from lakebed.server.looking import DataDirOption, look_at
from lakebed.server.options import FileOption, environment
from lakebed.versioning.findings import Finding, Verified
from lakebed.versioning.verify import Verifier

# More of them help nobody, and a lost bucket has one for each object.
_LISTED_MAX: Final = 1000


@dataclass(slots=True)
class _Outcome:
    """What was found: every kind is counted, the first ones are kept."""

    counts: Counter[str] = field(default_factory=Counter)
    listed: list[Finding] = field(default_factory=list)

    def add(self, finding: Finding) -> None:
        self.counts[finding.kind] += 1
        if len(self.listed) < _LISTED_MAX:
            self.listed.append(finding)


def verify(
    repo: Annotated[str, typer.Argument(metavar="REPO", help="The repository's name.", show_default=False)],
    *,
    data: Annotated[
        bool,
        typer.Option("--data", help="Read the objects too, and compare their bytes with their checksums."),
    ] = False,
    data_dir: DataDirOption = None,
    config: FileOption = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Check that everything a repository's branches, tags and commits lead to is there and whole.

    Run it where the server runs, with the server's configuration; the server
    may serve meanwhile, or be stopped. It reads every range and metarange, and
    lists the objects that they name; --data reads those too. It changes
    nothing, and ends with 1 if anything is wrong.
    """
    loaded = load_config(flags={"data": data_dir}, environment=environment(), file=config)
    name = repo.removeprefix("lakebed://").rstrip("/")
    outcome = _Outcome()
    with _progress_bar() as bar:
        done = asyncio.run(_verify(loaded, name, outcome, _Shown(bar), data=data))
    _print_json(done, outcome) if json else _print_table(done, outcome, data=data)
    if outcome.counts:
        raise typer.Exit(1)


async def _verify(config: Config, name: str, outcome: _Outcome, shown: "_Shown", *, data: bool) -> Verified:
    async with look_at(config) as (wired, layout):
        engine = wired.engine
        repo = await engine.repositories.get(parse_repo_name(name))
        verifier = Verifier(
            kv=engine.parts.kv,
            pins=engine.parts.pins,
            repo=repo,
            store=await engine.store_of(repo),
            external=engine.external,
            workers=engine.parts.workers,
            temp=layout.tmp,
            report=outcome.add,
            progress=shown,
        )
        return await verifier.run(data=data)


class _Shown:
    """One line of progress for each thing that is looked at."""

    def __init__(self, bar: Progress) -> None:
        self._bar = bar
        self._tasks: dict[str, TaskID] = {}

    def __call__(self, what: str, done: int, total: int | None) -> None:
        if what not in self._tasks:
            self._tasks[what] = self._bar.add_task(what, total=total)
        self._bar.update(self._tasks[what], completed=done, total=total)


def _progress_bar() -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        disable=not sys.stderr.isatty(),
        transient=True,
    )


def _print_json(done: Verified, outcome: _Outcome) -> None:
    report: dict[str, Any] = {
        "verified": asdict(done),
        "counts": dict(outcome.counts),
        "findings": [asdict(each) for each in outcome.listed],
    }
    sys.stdout.write(msgspec.json.format(msgspec.json.encode(report), indent=2).decode() + "\n")


def _print_table(done: Verified, outcome: _Outcome, *, data: bool) -> None:
    out = Console(highlight=False, width=None if sys.stdout.isatty() else 4096)
    if outcome.listed:
        table = Table("kind", "where", "what", "what to do", box=None, header_style="bold", pad_edge=False)
        for each in outcome.listed:
            table.add_row(*(Text(text) for text in (each.kind, each.where, each.what, each.remedy)))
        out.print(table)
    total = outcome.counts.total()
    if total > len(outcome.listed):
        out.print(f"… and {total - len(outcome.listed)} more")
    seen = (
        (done.branches, "branch"),
        (done.tags, "tag"),
        (done.commits, "commit"),
        (done.trees, "tree"),
        (done.ranges, "range"),
        (done.staged, "staged change"),
        (done.objects, "object"),
    )
    wrong = f"[bold red]{counted(total, 'thing')} wrong[/]"
    whole = "[green]everything is there and whole[/]" if data else "[green]everything is there[/]"
    out.print(", ".join(counted(*each) for each in seen) + ": " + (wrong if total else whole))
    if not data and done.objects:
        out.print(
            "The objects' bytes were not read: --data reads them and compares them with their checksums."
        )
