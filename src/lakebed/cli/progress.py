"""A progress bar for transfers: on a terminal only, and on standard error, so that output stays clean."""

import sys
from collections.abc import Iterable
from dataclasses import dataclass

import typer
from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)
from rich.text import Text

from lakebed.cli.output import print_json, say, size
from lakebed.client.transfers import Done, Outcome
from lakebed.model.words import counted


def transfer_bar() -> Progress:
    """Return a bar that counts bytes; where nobody watches, it shows nothing."""
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(binary_units=True),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        disable=not sys.stderr.isatty(),
        transient=True,
    )


def count_bar() -> Progress:
    """Return a bar that counts objects, of whose bytes none move; where nobody watches, it shows nothing."""
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        console=Console(stderr=True),
        disable=not sys.stderr.isatty(),
        transient=True,
    )


@dataclass(slots=True)
class Tally:
    """What became of the files of a folder."""

    copied: int = 0
    skipped: int = 0
    failed: int = 0
    bytes: int = 0


def tally_of(outcomes: Iterable[Outcome], bar: Progress) -> Tally:
    """Count what became of the files, and print failures above the bar as they come."""
    tally = Tally()
    for outcome in outcomes:
        match outcome.done:
            case Done.COPIED:
                tally.copied += 1
                tally.bytes += outcome.size_bytes
            case Done.SKIPPED:
                tally.skipped += 1
            case Done.FAILED:
                tally.failed += 1
                line = Text.assemble(("failed: ", "bold red"), f"{outcome.path}: {outcome.error}")
                bar.console.print(line, soft_wrap=True)
    return tally


def conclude(tally: Tally, *, verb: str, json: bool) -> None:
    """Print how a transfer of a folder went; end with 1 if files failed."""
    if json:
        print_json(tally)
    else:
        already = f", {tally.skipped} were there already" if tally.skipped else ""
        say(f"{verb} {{}} ({size(tally.bytes)}){already}", counted(tally.copied, "file"))
    if tally.failed:
        Console(stderr=True, highlight=False).print(
            f"{counted(tally.failed, 'file')} failed: run the same command again to go on from here"
        )
        raise typer.Exit(1)
