"""`lakebed gc`: run the job, and read what it reported."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer

from lakebed.client.client import Client
from lakebed.client.repo import Repo
from lakebed.client.uri import parse_repo
from lakebed.errors import DeniedError, ErrorKind, NotFoundError
from lakebed.format.gc import Summary, decode_summary, summary_key
from lakebed.limits import GC_GRACE_SECONDS, GC_MIN_AGE_SECONDS, GC_SHARE_MAX, GC_SMALL_OBJECTS
from lakebed.spark.commands import MasterOption, SparkLogOption
from lakebed.spark.gc import protocol
from lakebed.spark.gc.decide import Options
from lakebed.spark.gc.job import open_storage, opened_world
from lakebed.spark.gc.printing import Screen, amount, print_json, print_runs, print_summary, say

app = typer.Typer(help="Find and delete what nothing refers to any more.", no_args_is_help=True)

RepoArgument = Annotated[
    str, typer.Argument(metavar="lakebed://REPO", help="A repository.", show_default=False)
]
RunArgument = Annotated[
    str, typer.Argument(metavar="RUN", help="A run's id, or 'latest'.", show_default=False)
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]


class Mode(StrEnum):
    """What a run does."""

    MARK = "mark"
    SWEEP = "sweep"
    BOTH = "both"


class EngineName(StrEnum):
    """Which engine does it."""

    AUTO = "auto"
    POLARS = "polars"
    SPARK = "spark"


@app.command()
def run(
    repo: RepoArgument,
    *,
    mode: Annotated[
        Mode, typer.Option(help="Find garbage, delete what was found before, or both.")
    ] = Mode.BOTH,
    yes: Annotated[bool, typer.Option("--yes", help="Really delete. Without it nothing is, ever.")] = False,
    min_age: Annotated[
        float, typer.Option(min=0, metavar="SECONDS", help="Objects younger than this are kept.")
    ] = GC_MIN_AGE_SECONDS,
    grace: Annotated[
        float,
        typer.Option(
            min=0, metavar="SECONDS", help="How far apart two marks must find an object unreferenced."
        ),
    ] = GC_GRACE_SECONDS,
    engine: Annotated[EngineName, typer.Option(help="What computes it.")] = EngineName.AUTO,
    master: MasterOption = None,
    spark_log: SparkLogOption = None,
    allow_large: Annotated[
        bool, typer.Option("--allow-large", help="Delete even if it is a large part of all objects.")
    ] = False,
    max_share: Annotated[
        float, typer.Option(min=0, max=1, help="What part of all objects is large.")
    ] = GC_SHARE_MAX,
    quarantine: Annotated[
        float | None,
        typer.Option(min=0, metavar="DAYS", help="Put objects aside for so long first.", show_default=False),
    ] = None,
    rate: Annotated[
        float | None,
        typer.Option(min=1, help="Objects to delete in a second, at most.", show_default=False),
    ] = None,
    clean: Annotated[
        bool, typer.Option("--clean", help="Look at everything, not only at what changed.")
    ] = False,
    mark_id: Annotated[
        str | None,
        typer.Option(metavar="RUN", help="With --mode sweep: whose findings to delete.", show_default=False),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Collect garbage: mark what nothing refers to; delete what two marks a grace apart have found.

    Without --yes it is a dry run: nothing is deleted, and nothing remembered but
    the report. With it, the first run finds garbage, and the first one that
    comes a day later deletes it.

    Example: lakebed gc run lakebed://shop --yes
    """
    if mark_id is not None and mode is not Mode.SWEEP:
        raise typer.BadParameter("--mark-id goes with --mode sweep: a run that marks sweeps its own mark")
    options = Options(
        min_age_seconds=min_age,
        grace_seconds=grace,
        clean=clean,
        allow_large=allow_large,
        share_max=max_share,
        quarantine_days=quarantine,
        rate=rate,
    )
    with Client() as client:
        target = client.repo(parse_repo(repo))
        if mode is Mode.SWEEP and not yes:
            summary = _reported(target, mark_id or "latest")
        else:
            with _opened(target, engine=engine, master=master, spark_log=spark_log) as world:
                summary = _run(world, options, mode=mode, yes=yes, mark_id=mark_id)
    if json:
        print_json(summary)
    else:
        print_summary(summary)
        _say_what_next(summary, mode=mode, yes=yes)


@app.command()
def runs(repo: RepoArgument, *, json: JsonOption = False) -> None:
    """List the runs that are remembered, newest first."""
    with Client() as client:
        found = client.repo(parse_repo(repo)).gc.runs()
    print_json(found) if json else print_runs(found)


@app.command()
def show(repo: RepoArgument, run: RunArgument = "latest", *, json: JsonOption = False) -> None:
    """Show the report of a run: how much is garbage, how old it is, and how much space came back."""
    with Client() as client:
        summary = _reported(client.repo(parse_repo(repo)), run)
    print_json(summary) if json else print_summary(summary)


@app.command()
def restore(repo: RepoArgument, run: RunArgument, *, json: JsonOption = False) -> None:
    """Put back what a run with --quarantine deleted, while it is kept.

    Nothing refers to these objects: whoever needs them imports or links them before two new marks, a grace apart, have found them again.
    """
    with Client() as client, Screen() as screen:
        target = client.repo(parse_repo(repo))
        with opened_world(target, engine=EngineName.POLARS, master=None, watcher=screen) as world:
            restored = asyncio.run(protocol.restore(world, run))
    print_json(restored) if json else say(f"{amount(restored)} are back")


@contextmanager
def _opened(
    repo: Repo, *, engine: EngineName, master: str | None, spark_log: Path | None
) -> Iterator[protocol.World[Any]]:
    chosen = _choose(repo, master) if engine is EngineName.AUTO else engine
    with (
        Screen() as screen,
        opened_world(repo, engine=chosen, master=master, watcher=screen, spark_log=spark_log) as world,
    ):
        yield world


def _run(
    world: protocol.World[Any], options: Options, *, mode: Mode, yes: bool, mark_id: str | None
) -> Summary:
    if mode is Mode.SWEEP:
        return asyncio.run(protocol.sweep(world, options, mark_id))
    summary = asyncio.run(protocol.mark(world, options, publish=yes or mode is Mode.MARK))
    if mode is Mode.BOTH and yes:
        summary = asyncio.run(protocol.sweep(world, options, summary.run))
    return summary


def _choose(repo: Repo, master: str | None) -> EngineName:
    """Return the engine for a repository of this size: a JVM is worth its start where there is much to do.

    A key may run garbage collection without seeing earlier runs: then nothing is known of the size, and any is possible.
    """
    if master is not None:
        return EngineName.SPARK
    try:
        marks = repo.gc.runs().marks
    except DeniedError:
        large = True
    else:
        large = bool(marks) and marks[0].counts.get("objects", 0) > GC_SMALL_OBJECTS
    return EngineName.SPARK if large and find_spec("pyspark") is not None else EngineName.POLARS


def _reported(repo: Repo, run: str) -> Summary:
    found = repo.gc.runs()
    if run == "latest":
        if not found.marks:
            raise NotFoundError(ErrorKind.GC_RUN_NOT_FOUND, f"{repo.name} has no mark yet: lakebed gc run")
        run = found.marks[0].run_id
    store = open_storage(found.storage)
    try:
        return decode_summary(asyncio.run(store.get(summary_key(run))))
    except NotFoundError:
        raise NotFoundError(
            ErrorKind.GC_RUN_NOT_FOUND,
            f"run {run} of {repo.name} has no report: lakebed gc runs lists the runs",
        ) from None


def _say_what_next(summary: Summary, *, mode: Mode, yes: bool) -> None:
    if summary.swept_at is not None:
        return
    if mode is not Mode.MARK and not yes:
        say(f"This was a dry run: nothing was deleted. --yes deletes {amount(summary.marked)}.")
    if not summary.marked.objects and summary.candidates.objects:
        say(
            f"{amount(summary.candidates)} are garbage, if a run at least {summary.grace_seconds / 3600:.0f} h from now"
            " finds the same."
        )
