"""`simulate`: many seeds, spread over all scenarios and all cores. `python -m lakebed.testing.simulation.many N`.

Prints what failed as it fails, with the command that replays it and the end of its story; then what was met how
often, and last `seeds N, steps M, violations K`. Fails if there was a violation, or if something was never met.
"""

import argparse
import logging
import os
import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from traceback import format_exception_only

from lakebed.telemetry import log
from lakebed.testing.simulation.coverage import missed, table
from lakebed.testing.simulation.run import play
from lakebed.testing.simulation.scenarios import SCENARIOS

# Below this a run is worth nothing: it cannot have met much.
STEPS_MIN = 300
# With fewer seeds than this a run of good luck may miss something without anything being wrong.
SEEDS_ENOUGH = 400
_STORY_LINES = 40
_PROGRESS_SECONDS = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How the run of one seed ended."""

    scenario: str
    seed: int
    steps: int
    met: Counter[str]
    failure: str = ""


def play_one(scenario: str, seed: int) -> Ended:
    """Play a seed, and return how it ended, whatever happened."""
    try:
        played = play(scenario, seed)
    except Exception as error:  # noqa: BLE001  the others want their turn
        return Ended(
            scenario=scenario, seed=seed, steps=0, met=Counter(), failure=_story(scenario, seed, error)
        )
    short = played.steps < STEPS_MIN
    failure = f"{scenario} {seed}: only {played.steps} steps" if short else ""
    return Ended(scenario=scenario, seed=seed, steps=played.steps, met=played.met, failure=failure)


def simulate(seeds: int, *, first: int = 0, processes: int | None = None) -> int:
    """Play so many seeds, print how it went, and return how many things were wrong."""
    began = shown = time.monotonic()
    names = list(SCENARIOS)
    jobs = [(names[number % len(names)], first + number // len(names)) for number in range(seeds)]
    met, steps, violations, ended = Counter[str](), 0, 0, 0
    with ProcessPoolExecutor(
        processes or os.cpu_count(), mp_context=get_context("spawn"), initializer=_be_quiet
    ) as pool:
        for end in pool.map(play_one, *zip(*jobs, strict=True), chunksize=1):
            ended += 1
            steps += end.steps
            met += end.met
            if end.failure:
                violations += 1
                _say(end.failure)
            if time.monotonic() - shown > _PROGRESS_SECONDS:
                shown = time.monotonic()
                _say(f"{ended} of {seeds} seeds, {shown - began:.0f} s")
    _say("\n".join(["", *table(met), ""]))
    unmet = missed(met)
    for what in unmet:
        _say(f"never met: {what}")
    if unmet and seeds < SEEDS_ENOUGH:
        _say(f"with fewer than {SEEDS_ENOUGH} seeds that may be chance")
    _say(f"{time.monotonic() - began:.0f} s on {processes or os.cpu_count()} processes")
    _say(f"seeds {seeds}, steps {steps}, violations {violations}")
    return violations + len(unmet)


def main() -> int:
    """Do what the arguments ask for."""
    parser = argparse.ArgumentParser(
        prog="python -m lakebed.testing.simulation.many", description="play many seeds of all scenarios"
    )
    parser.add_argument("seeds", type=int, help="how many")
    parser.add_argument("--first", type=int, default=0, help="the first seed of each scenario")
    parser.add_argument("--processes", type=int, help="how many at a time; as many as there are cores")
    wanted = parser.parse_args()
    return min(simulate(wanted.seeds, first=wanted.first, processes=wanted.processes), 1)


def _be_quiet() -> None:
    """Log nothing: in a storm, complaints are many and mean nothing."""
    log.configure(level=logging.CRITICAL)


def _story(scenario: str, seed: int, error: Exception) -> str:
    """Return what a violation is, how to replay it, and how it came to be."""
    lines: list[str] = []
    try:
        play(scenario, seed, trace=lines)
    except Exception as again:  # noqa: BLE001  the same one, if the run is deterministic
        same = str(again) == str(error)
    else:
        same = False
    said = "".join(format_exception_only(error)).strip()
    return "\n".join(
        [
            f"{scenario} {seed}: {said}",
            f"replay: python -m lakebed.testing.simulation {scenario} --seed {seed} --trace FILE",
            *([] if same else ["played again it ended otherwise: the run depends on more than its seed"]),
            *(f"    {line}" for line in lines[-_STORY_LINES:]),
        ]
    )


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
