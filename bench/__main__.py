"""Run the scenarios, each in a fresh process, and print our figures beside the peer's.

    python -m bench [--only a,b] [--scale 0.2] [--seconds 3] [--json out.json] [--doc docs/benchmarks.md]

A scale below 1 makes the data smaller; figures of the peer that grow with it are
then scaled along and marked `~`. Only a run at scale 1 on an idle machine counts.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

from bench import table
from bench.figure import Figure
from bench.scenarios import SCENARIOS

# On a disk and kept over a restart, which /tmp is not everywhere: syncs count here, and files are used again.
_WORK = Path("/var/tmp/lakebed-bench")

_BEGIN, _END = "<!-- figures -->", "<!-- end of figures -->"


def main() -> int:
    arguments = _parse()
    arguments.work.mkdir(parents=True, exist_ok=True)
    printed = [f"Scale {arguments.scale:g}, {_machine()}.", "", *table.HEADER.splitlines()]
    print("\n".join(printed), flush=True)
    results: dict[str, Any] = {}
    for name in _chosen(arguments.only):
        results[name] = _run(name, arguments)
        for row in _rows(name, results[name], arguments.scale):
            print(row, flush=True)
            printed.append(row)
    if arguments.doc is not None:
        _write_between_markers(arguments.doc, "\n".join(printed))
    if arguments.json is not None:
        arguments.json.write_text(json.dumps({"scale": arguments.scale, "scenarios": results}, indent=1))
    return int(any("failed" in result for result in results.values()))


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="bench", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", help=f"some of: {', '.join(SCENARIOS)}")
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--seconds", type=float, default=3.0, help="how long each rate is measured")
    parser.add_argument("--json", type=Path, help="write the figures to this file, too")
    parser.add_argument("--doc", type=Path, help="put the table between the markers of this file")
    parser.add_argument("--work", type=Path, default=_WORK, help="a folder on the disk to be measured")
    parser.add_argument("--profile", action="store_true", help="print each event loop's profile")
    return parser.parse_args()


def _machine() -> str:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    load = os.getloadavg()[0]
    version = platform.python_version()
    return f"{os.cpu_count()} cores, {memory:.0f} GiB, Python {version}, load {load:.1f} at the start"


def _write_between_markers(doc: Path, text: str) -> None:
    before, _, rest = doc.read_text().partition(_BEGIN)
    _, _, after = rest.partition(_END)
    doc.write_text(f"{before}{_BEGIN}\n\n{text}\n\n{_END}{after}")


def _chosen(only: str) -> list[str]:
    """Return the scenarios to run, with calibration and the tree where it is needed."""
    wanted = set(only.split(",")) if only else set(SCENARIOS)
    unknown = wanted - set(SCENARIOS)
    if unknown:
        sys.exit(f"no scenario {', '.join(sorted(unknown))}: choose from {', '.join(SCENARIOS)}")
    wanted.add("calibrate")
    if any(SCENARIOS[name].needs_tree for name in wanted):
        wanted.add("tree")
    return [name for name in SCENARIOS if name in wanted]


def _run(name: str, arguments: argparse.Namespace) -> dict[str, Any]:
    command = [sys.executable, "-m", "bench.child", name, "--work", str(arguments.work)]
    command += ["--scale", str(arguments.scale), "--seconds", str(arguments.seconds)]
    command += ["--profile"] if arguments.profile else []
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        return {"failed": f"exit status {done.returncode}"}
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def _rows(name: str, result: dict[str, Any], scale: float) -> list[str]:
    if "failed" in result:
        return [f"| `{name}` | failed: {result['failed']} | | | | | |"]
    figures = [Figure(**figure) for figure in result["figures"]]
    peak = f"{result['peak_mib']:,}"
    if result["worker_mib"]:
        peak += f" + {result['worker_mib']:,} a worker"
    return list(table.rows(name, figures, scale=scale, peak=peak))


if __name__ == "__main__":
    sys.exit(main())
