"""`Scenario`: a play, and the world it is played in."""

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from lakebed.compaction.limits import CompactionLimits
from lakebed.testing.simulation.world import World


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """A play, and the parts of it that a few seeds together must reach."""

    play: Callable[[World], Coroutine[Any, Any, None]]
    reaches: tuple[str, ...]
    fences: bool = True
    segments: bool = False
    """Whether most processes stage by segment."""
    compaction: bool = False
    """Whether every process has a compactor."""
    limits: CompactionLimits | None = None
    """Those of all compactors; None: usual ones, small and different from process to process."""
