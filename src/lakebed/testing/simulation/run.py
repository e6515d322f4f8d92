"""Play one scenario on one seed."""

from collections import Counter
from dataclasses import dataclass

from lakebed.testing.simulation.scenarios import SCENARIOS
from lakebed.testing.simulation.world import World


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """How a run went."""

    digest: str
    met: Counter[str]
    seconds: float
    steps: int


def play(scenario: str, seed: int, *, trace: list[str] | None = None) -> Played:
    """Play a scenario, and raise `AssertionError` if the engine did what it must never do.

    `trace` is filled with what happened, to the end or to where it broke.
    """
    plot = SCENARIOS[scenario]
    world = World(
        f"{scenario} {seed}",
        fences=plot.fences,
        segments=plot.segments,
        compaction=plot.compaction,
        limits=plot.limits,
        keep_trace=trace is not None,
    )
    try:
        world.loop.run(plot.play(world))
    finally:
        if trace is not None:
            trace += world.trace.lines
        world.close()
    return Played(digest=world.trace.digest, met=world.met, seconds=world.loop.time(), steps=world.loop.steps)
