"""`Steps`: how far everything that is under way has got, and who died or lost an answer there.

A protocol is a row of steps; a crash counts by the last one that was applied before it. Steps are told by `Watch`,
which sees them where they are applied: in the database and in the store. A step whose
answer never arrives is a crash of its own kind: its author goes on without knowing.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass

from lakebed.testing.simulation.network import Network

POINTS: Mapping[str, tuple[str, ...]] = {
    "writer": ("begin", "upload", "swap", "ack"),
    "worker": ("claim", "read", "upload part", "upload all", "install", "report"),
    "commit": ("begin", "seal", "read", "upload ranges", "metarange", "commit object", "swap", "drop"),
    "reset": ("begin", "swap", "drop"),
    "cleaner": ("mark", "queue write", "strike", "delete", "dequeue"),
    "coordinator": ("prepare", "swap", "respond"),
    "repository delete": ("begin", "mark", "record", "each partition", "entry"),
}
"""The steps of each protocol, in order. `begin`: asked for, and nothing of it applied yet."""

GC_POINTS: Mapping[str, tuple[str, ...]] = {
    "gc mark": (
        "lease",
        "clock",
        "list",
        "uncommitted",
        "condemn",
        "commits",
        "read",
        "lists",
        "report",
        "state",
        "publish",
    ),
    "gc sweep": ("lease", "look", "aside", "delete", "record", "report"),
    "gc restore": ("lease", "put back", "drop copies"),
    "gc prepare_uncommitted": ("pin", "page"),
    "gc prepare_commits": ("attempt", "condemn", "list", "roots", "prepared"),
}
"""The same for garbage collection: the first three belong to the job's process, the others to the server's."""

_ORDER = {**POINTS, **GC_POINTS}

# These go round and round: each step is wherever the last round has got to.
_ROUNDS = frozenset({"cleaner", "coordinator"})

Ambush = Callable[[str, str, str], None]
"""Told of a step as it is applied: protocol, step and process."""


@dataclass(slots=True)
class _Flow:
    protocol: str
    step: str
    process: str


def killed(protocol: str, step: str) -> str:
    """Return what a death after this step is counted as."""
    return f"killed, {protocol}: {step}"


def unheard(protocol: str, step: str) -> str:
    """Return what a lost answer to this step is counted as."""
    return f"unheard, {protocol}: {step}"


class Steps:
    """See the module's docstring."""

    def __init__(self, network: Network, met: Counter[str]) -> None:
        self._network = network
        self._met = met
        self._flows: dict[tuple[str, Hashable], _Flow] = {}
        self.ambush: Ambush | None = None

    def reach(self, protocol: str, which: Hashable, step: str, *, of: str = "") -> None:
        """The request that is being applied right now is this step of a protocol; `which` tells runs of it apart.

        `of` is the process whose step it is, if another one has made the request for it.
        """
        delivery = self._network.delivering
        moved = self._move(protocol, which, step, of or delivery.process)
        if moved and not delivery.is_heard and step != "begin" and of in ("", delivery.process):
            self._met[unheard(protocol, step)] += 1

    def acknowledge(self, protocol: str, which: Hashable, process: str) -> None:
        """A client of `process` was told that all is done."""
        self._move(protocol, which, "ack", process)

    def notice(self, protocol: str, moment: str) -> None:
        """Tell whoever lies in wait of a moment that is no step: no death is counted there."""
        if self.ambush is not None:
            self.ambush(protocol, moment, self._network.delivering.process)

    def is_at(self, protocol: str, which: Hashable, *steps: str) -> bool:
        """Return whether a run of a protocol has got to one of the steps, and no further."""
        flow = self._flows.get((protocol, which))
        return flow is not None and flow.step in steps

    def end(self, protocol: str, which: Hashable) -> None:
        """A run of a protocol ended in the ordinary way."""
        self._flows.pop((protocol, which), None)

    def _move(self, protocol: str, which: Hashable, step: str, process: str) -> bool:
        """Return whether the run had not got so far before."""
        order = _ORDER[protocol]
        flow = self._flows.get((protocol, which))
        if flow is None:
            flow = self._flows[protocol, which] = _Flow(protocol, step, process)
        elif protocol not in _ROUNDS and order.index(step) <= order.index(flow.step):
            return False
        flow.step, flow.process = step, process
        if self.ambush is not None:
            self.ambush(protocol, step, process)
        return True

    def died(self, process: str) -> None:
        """A process was killed, and everything that it was at stays where it is."""
        for which in [which for which, flow in self._flows.items() if flow.process == process]:
            flow = self._flows.pop(which)
            self._met[killed(flow.protocol, flow.step)] += 1
