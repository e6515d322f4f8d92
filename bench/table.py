"""The table that a run prints, as Markdown: a row a figure."""

from collections.abc import Iterator

from bench.figure import Figure

HEADER = """\
| scenario | what | ours | peer | times better | peak MiB | notes |
|---|---|--:|--:|--:|--:|---|"""


def rows(scenario: str, figures: list[Figure], *, scale: float, peak: str) -> Iterator[str]:
    """Yield the rows of one scenario; its name and peak memory stand in the first."""
    for index, figure in enumerate(figures):
        first = index == 0
        cells = [
            f"`{scenario}`" if first else "",
            figure.name,
            number(figure.value, figure.unit),
            _target(figure, scale),
            _ratio(figure, scale),
            peak if first else "",
            figure.note,
        ]
        yield f"| {' | '.join(cells)} |"


def number(value: float, unit: str) -> str:
    """Return a number with three digits that count, and its unit."""
    if value >= 100:
        return f"{value:,.0f} {unit}"
    if value >= 10:
        return f"{value:.1f} {unit}"
    return f"{value:.2f} {unit}" if value >= 1 else f"{value:.3f} {unit}"


def _target(figure: Figure, scale: float) -> str:
    if figure.peer is None:
        return "" if figure.aim is None else f"aim {number(figure.aim, figure.unit)}"
    factor = scale if figure.grows else 1.0
    low, high = (end * factor for end in figure.peer)
    about = "~" if figure.grows and scale != 1.0 else ""
    if low == high:
        return about + number(low, figure.unit)
    return f"{about}{number(low, figure.unit)} to {number(high, figure.unit)}"


def _ratio(figure: Figure, scale: float) -> str:
    ratio = figure.times_better(scale)
    if ratio is None:
        return ""
    about = "~" if figure.grows and scale != 1.0 and figure.peer is not None else ""
    return f"{about}{ratio:.1f}" if ratio >= 1 else f"{about}{ratio:.2f}"
