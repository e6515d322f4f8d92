"""`Figure`: one measured number, and what it is held against.

Nothing here is a figure of ours: those are measured in the run that prints them.
The peer's are from a run of the same kind on the same kind of machine, on two
cores with its client on the same ones; compare the calibration lines first.
"""

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A number in `unit` (seconds and milliseconds: less is better; anything else: more is)."""

    name: str
    value: float
    unit: str
    peer: tuple[float, float] | None = None
    """What the peer scores: from, to. Both alike if it is one number."""
    grows: bool = False
    """The peer's number is for the full scale and grows with it."""
    aim: float | None = None
    """What to reach where there is no peer, or beside it."""
    note: str = ""

    @property
    def less_is_better(self) -> bool:
        return self.unit in {"s", "ms", "MiB"}

    def times_better(self, scale: float) -> float | None:
        """Return how many times better than the peer's better end, or than the aim; None if there is neither."""
        if self.peer is not None:
            best = min(self.peer) if self.less_is_better else max(self.peer)
            target = best * scale if self.grows else best
        elif self.aim is not None:
            target = self.aim
        else:
            return None
        return target / self.value if self.less_is_better else self.value / target

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def peer(low: float, high: float | None = None) -> tuple[float, float]:
    """Return the peer's figure as a pair."""
    return low, low if high is None else high
