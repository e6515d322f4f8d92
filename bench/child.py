"""One scenario in a process of its own, so that its peak memory is its own. Prints JSON."""

import argparse
import asyncio
import cProfile
import json
import pstats
import resource
import sys
from pathlib import Path

from bench.lab import Lab
from bench.scenarios import SCENARIOS


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("scenario", choices=list(SCENARIOS))
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--scale", type=float, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--profile", action="store_true", help="print the event loop's profile to stderr")
    arguments = parser.parse_args()
    lab = Lab(arguments.work, arguments.scale, arguments.seconds)
    run = SCENARIOS[arguments.scenario].run
    profile = cProfile.Profile()
    if arguments.profile:
        profile.enable()
    figures = asyncio.run(run(lab))
    if arguments.profile:
        profile.disable()
        pstats.Stats(profile, stream=sys.stderr).sort_stats("tottime").print_stats(40)
    own, workers = (
        resource.getrusage(who).ru_maxrss // 1024 for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    )
    print(json.dumps({"figures": [f.as_dict() for f in figures], "peak_mib": own, "worker_mib": workers}))


if __name__ == "__main__":
    main()
