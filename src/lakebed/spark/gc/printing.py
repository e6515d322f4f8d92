"""How the job speaks to people: what it is doing, on a terminal and on standard error; reports as tables."""

import sys
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Self

import msgspec
from rich.console import Console
from rich.live import Live
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from lakebed.client.replies import GcRuns
from lakebed.env.clock import SECOND
from lakebed.format.gc import Amount, Phase, Summary
from lakebed.spark.gc.decide import percent
from lakebed.spark.gc.progress import Going

# A pipe has no width: nothing is cut or wrapped there.
_PIPE_WIDTH = 4096
# Asking Spark takes some milliseconds.
_LOOKS_PER_SECOND = 4


class Screen:
    """A `Watcher` that shows phases, counts and rates on a terminal; warnings it shows everywhere."""

    def __init__(self) -> None:
        self._console = Console(stderr=True, highlight=False)
        self._live: Live | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()

    def begins(self, phase: str, look: Callable[[], Going]) -> None:
        self._stop()
        if self._console.is_terminal:
            spinner = Spinner("dots", Text(phase))

            def going() -> Spinner:
                spinner.update(text=Text(_going(look())))
                return spinner

            self._live = Live(
                console=self._console,
                get_renderable=going,
                refresh_per_second=_LOOKS_PER_SECOND,
                transient=True,
            )
            self._live.start()

    def ends(self, phase: Phase) -> None:
        self._stop()
        if self._console.is_terminal:
            self._console.print(f"  {_line(phase.name, phase.count, phase.seconds)}")

    def warns(self, message: str) -> None:
        self._console.print(Text.assemble(("warning: ", "bold yellow"), message), soft_wrap=True)

    def _stop(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None


def _going(going: Going) -> str:
    if going.total:
        return f"{going.phase:<26} {f'{going.done:,}/{going.total:,} tasks':>14}   {going.seconds:.1f} s"
    return _line(going.phase, going.done, going.seconds)


def _line(phase: str, count: int, seconds: float) -> str:
    rate = f", {count / seconds:,.0f}/s" if count and seconds else ""
    shown = f"{count:,}" if count else ""
    return f"{phase:<26} {shown:>14}   {seconds:.1f} s{rate}"


def print_json(value: Any) -> None:
    """Print one value for programs."""
    sys.stdout.write(msgspec.json.format(msgspec.json.encode(value), indent=2).decode() + "\n")


def say(message: str) -> None:
    """Print a sentence."""
    _console().print(Text(message), soft_wrap=True)


def print_summary(summary: Summary) -> None:
    """Print a report."""
    referenced = (
        f"{summary.live_commits:,} of {summary.commits:,} commits, {summary.ranges:,} ranges read,"
        f" {summary.uncommitted:,} uncommitted"
    )
    namespace = amount(summary.namespace)
    parts = f"{percent(summary.marked_objects.objects, summary.namespace.objects)} of the objects"
    if summary.trees is not None:
        namespace += f"; {amount(summary.trees, 'ranges and metaranges')}"
        files = summary.namespace + summary.trees
        parts += f", {percent(summary.marked.objects, files.objects)} of all files"
    fields = [
        ("run", summary.run),
        ("repository", summary.repository),
        ("kind", f"{summary.kind}: {summary.reason}"),
        ("engine", summary.engine),
        ("marked at", moment(summary.marked_at)),
        ("in the namespace", namespace),
        ("listed", f"{amount(summary.listed)}; {summary.skipped_slices} slices were too new"),
        ("referenced", referenced),
        ("unreferenced", amount(summary.candidates)),
        ("marked", f"{amount(summary.marked)} ({parts})"),
        ("deleted", _deleted(summary)),
    ]
    if summary.unknown_folders or summary.odd_names:
        left = f"{summary.unknown_folders} folders that are not lakebed's, {summary.odd_names:,} objects with odd names"
        fields.append(("left alone", left))
    grid = Table.grid(padding=(0, 2))
    for name, value in fields:
        grid.add_row(Text(name, "bold"), Text(value))
    _console().print(grid)
    if summary.by_prefix_and_age:
        rows = (
            (share.prefix, share.age, f"{share.objects:,}", size(share.bytes))
            for share in summary.by_prefix_and_age
        )
        _print_table(("marked under", "age", "objects", "size"), rows)


def print_runs(runs: GcRuns) -> None:
    """Print runs, newest first."""
    if not runs.results:
        say("No garbage has been collected here yet: lakebed gc run")
        return
    rows = []
    for run in runs.results:
        counts = run.mark.counts if run.mark is not None else {}
        rows.append(
            (
                *(run.run_id, moment(run.started_at), run.kind, run.outcome or run.state),
                run.mark.kind if run.mark is not None else "",
                f"{counts['candidates']:,}" if "candidates" in counts else "",
                f"{counts['marked']:,}" if "marked" in counts else "",
                run.holder,
            )
        )
    _print_table(
        ("run", "started", "for", "outcome", "mark", "unreferenced", "marked", "by"),
        rows,
    )


def moment(microseconds: int) -> str:
    """Return a time as people read it, in UTC so that everybody reads the same."""
    return datetime.fromtimestamp(microseconds / SECOND, UTC).strftime("%Y-%m-%d %H:%M:%S")


def amount(value: Amount, noun: str = "objects") -> str:
    """Return an amount as people read it."""
    return f"{value.objects:,} {noun}, {size(value.bytes)}"


def size(count: int) -> str:
    """Return a number of bytes as people read it.

    >>> size(1536)
    '1.5 KiB'
    """
    value, unit = float(count), "B"
    for larger in ("KiB", "MiB", "GiB", "TiB", "PiB"):
        if value < 1024:
            break
        value, unit = value / 1024, larger
    return f"{count} B" if unit == "B" else f"{value:.1f} {unit}"


def _deleted(summary: Summary) -> str:
    if not summary.deleted.objects:
        return "nothing"
    aside = f"; {amount(summary.quarantined)} of it kept aside" if summary.quarantined.objects else ""
    when = f", done {moment(summary.swept_at)}" if summary.swept_at is not None else ", not finished"
    return f"{amount(summary.deleted)}{when}{aside}"


def _print_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    table = Table(*columns, box=None, header_style="bold", pad_edge=False)
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    _console().print(table)


def _console() -> Console:
    return Console(highlight=False, width=None if sys.stdout.isatty() else _PIPE_WIDTH)
