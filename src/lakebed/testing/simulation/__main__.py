"""Replay a seed: `python -m lakebed.testing.simulation SCENARIO --seed N [--count N] [--trace FILE]`."""

import argparse
import sys
import time
import traceback
from collections import Counter
from pathlib import Path

from lakebed.testing.simulation.run import play
from lakebed.testing.simulation.scenarios import SCENARIOS


def main() -> int:
    """Play what the arguments ask for; return how many runs failed."""
    parser = argparse.ArgumentParser(prog="python -m lakebed.testing.simulation", description=__doc__)
    parser.add_argument("scenario", choices=[*SCENARIOS, "all"])
    parser.add_argument("--seed", type=int, default=0, help="the seed, or the first of --count")
    parser.add_argument("--count", type=int, default=1, help="how many seeds")
    parser.add_argument("--trace", type=Path, help="write what happened to this file")
    parser.add_argument("--met", action="store_true", help="print what was met, and how often")
    wanted = parser.parse_args()
    failed, met = 0, Counter[str]()
    for scenario in SCENARIOS if wanted.scenario == "all" else [wanted.scenario]:
        began = time.perf_counter()
        for seed in range(wanted.seed, wanted.seed + wanted.count):
            lines: list[str] | None = [] if wanted.trace else None
            try:
                played = play(scenario, seed, trace=lines)
            except Exception as error:  # noqa: BLE001  the next seed wants its turn
                failed += 1
                sys.stdout.write(f"{scenario} {seed}: {type(error).__name__}: {error}\n")
                if not isinstance(error, AssertionError) or wanted.count == 1:
                    traceback.print_exception(error)
            else:
                met += played.met
                if wanted.count == 1:
                    sys.stdout.write(
                        f"{scenario} {seed}: {played.digest} {played.seconds:.0f} s in {played.steps} steps\n"
                    )
            if wanted.trace and lines is not None:
                wanted.trace.write_text("\n".join(lines) + "\n")
        sys.stdout.write(f"{scenario}: {wanted.count / (time.perf_counter() - began):.2f} seeds/s\n")
    if wanted.met:
        sys.stdout.write("".join(f"{count:8} {what}\n" for what, count in sorted(met.items())))
    return failed


if __name__ == "__main__":
    sys.exit(main())
