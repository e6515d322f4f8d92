"""What a run of many seeds must have met, and how that is told: the scenarios and crash points of the design.

How each scenario is recognised is in `sightings`, and of each crash point in `watch` and `steps`. Here they have their
sentences. Whatever was met not once has not been tested, whatever the laws say, so a zero fails the run.
"""

from collections import Counter
from collections.abc import Mapping

from lakebed.testing.simulation.sightings import sighting
from lakebed.testing.simulation.steps import GC_POINTS, POINTS, killed, unheard

SCENARIOS_MET: Mapping[int, tuple[str, tuple[str, ...]]] = {
    1: ("a lease runs out, its worker is alive, and both attempts finish", ("",)),
    2: ("a worker stands still for longer than the grace, and goes on at its install", ("",)),
    3: ("the same worker loses a job and gets it again", ("",)),
    4: ("a job is completed twice", ("",)),
    5: ("the answer to a report of success is lost", ("",)),
    6: ("the answer with an assignment is lost: nobody ever begins it", ("",)),
    7: ("clocks are wrong by an hour", ("worker and coordinator", "engine, back", "engine, forward")),
    8: ("a commit comes between claim and install", ("after claim", "after upload")),
    9: ("two commits come during one job", ("",)),
    10: ("a reset comes during a job, then writes to the same paths", ("after claim", "after upload")),
    11: ("a reset comes during a job when there was no compacted tree", ("",)),
    12: ("a branch is deleted and created again during a job", ("",)),
    13: ("a repository is deleted", ("during a job", "during cleaning", "name used again")),
    14: ("a merge finds a compacted tree that differs from the commit", ("",)),
    15: ("a worker loses swap after swap of a branch, and wins in the end", ("", "an install")),
    16: ("a coordinator starts with nothing in memory", ("",)),
    17: ("two coordinators change one job document", ("",)),
    18: ("a source cannot be read: its job is parked, and the branch is read", ("", "the file is damaged")),
    19: ("a job that kills its workers is parked, and others are done", ("",)),
    20: ("the queue is full", ("",)),
    21: ("there is no worker for an hour, then there is", ("",)),
    22: ("processes with different limits work on one job document", ("",)),
    23: (
        "layers are freed during a scan of their branch",
        ("cleaned meanwhile", "too slow", "pinned for longer than the grace", "pin ran out"),
    ),
    24: ("a file is uploaded once more after it was swept", ("",)),
    25: ("the database is restored, its epoch raised, and a worker of before goes on", ("",)),
}
"""The 25 scenarios: what happens, and the ways in which it must have happened."""

GC_MET: Mapping[str, tuple[str, ...]] = {
    "a lease runs out, and another collector takes it": ("lease taken over",),
    "a lease is taken from a collector that lives": ("lease taken from the living",),
    "a collector goes on without its lease, and is told": ("collect lease-lost",),
    "the answer to a collector's request is lost": tuple(
        f"reply lost: {what}"
        for what in ("begin", "renew", "prepare_uncommitted", "prepare_commits", "publish", "end")
    ),
    "clocks are too far apart, and the run refuses": ("clocks apart",),
    "too much would go, and the sweep refuses": ("too large a share",),
    "objects are put aside": ("put aside",),
    "what was put aside is put back": ("put back",),
    "what was put aside is deleted when its time is over": ("quarantine over",),
    "an address is linked too late": ("write too-late",),
    "a link is repeated": ("relink done", "relink link-refused"),
    "an upload in parts": ("upload begun", "upload completed", "upload given up"),
    "a dump is restored": ("restored between two marks", "restored during a mark", "marks discarded"),
}
"""What befalls collectors, and the names under which it is counted."""

_POINTS = {**POINTS, **GC_POINTS}


def missed(met: Counter[str]) -> list[str]:
    """Return what a run should have met and has not."""
    scenarios = [
        f"{number}. {sentence}" + (f" ({detail})" if detail else "")
        for number, (sentence, details) in SCENARIOS_MET.items()
        for detail in details
        if not met[sighting(number, detail)]
    ]
    points = [
        f"crash: {protocol}, after {step}"
        for protocol, steps in _POINTS.items()
        for step in steps
        if not met[killed(protocol, step)] + met[unheard(protocol, step)]
    ]
    collected = [
        f"{sentence} ({name})" for sentence, names in GC_MET.items() for name in names if not met[name]
    ]
    return scenarios + points + collected


def table(met: Counter[str]) -> list[str]:
    """Return the lines that say how often each scenario and crash point was met."""
    lines = ["   times  scenario"]
    for number, (sentence, details) in SCENARIOS_MET.items():
        for detail in details:
            ending = f" ({detail})" if detail else ""
            lines.append(f"{met[sighting(number, detail)]:8}  {number:2}. {sentence}{ending}")
    lines += ["", "   times  garbage collection"]
    for sentence, names in GC_MET.items():
        lines += [f"{met[name]:8}  {sentence}" + (f" ({name})" if len(names) > 1 else "") for name in names]
    lines += ["", "  killed  answer lost  after the step"]
    for protocol, steps in _POINTS.items():
        for step in steps:
            counts = met[killed(protocol, step)], met[unheard(protocol, step)]
            lines.append(f"{counts[0]:8}  {counts[1]:11}  {protocol}: {step}")
    return lines
