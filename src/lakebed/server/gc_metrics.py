"""Garbage collection for Prometheus: what the run records of all repositories say, as it is in the database.

Collectors are jobs elsewhere, which end: only the servers can be asked. A number that a server would count for itself would
be gone with it, and "no run for a week" is what an alert is for. So every answer is made from the records, at most once in a
few seconds, however often and whichever worker is asked.

Anyone who reaches the server may ask for metrics, and names of repositories are not for everyone. Unless an operator lets them
be shown, there is one line for all repositories: the oldest of their times, the sum of their numbers.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from lakebed.env.clock import SECOND, Clock
from lakebed.errors import LakebedError
from lakebed.format.gc_state import decode_gc_state
from lakebed.kv.port import KVStore
from lakebed.limits import GC_METRICS_REPOSITORIES, GC_METRICS_SECONDS
from lakebed.model.gc import GcState, Run, RunKind
from lakebed.model.repository import Repository
from lakebed.refs.keys import GC_STATE_KEY
from lakebed.refs.repositories import Repositories

DONE = "done"
ALL = "*"
"""The label of the line for all repositories."""


@dataclass(frozen=True, slots=True)
class _Gauge:
    name: str
    text: str
    together: Callable[[Iterable[float]], float] = sum


_BY_KIND: Final = (
    _Gauge("last_run_timestamp_seconds", "When the last run began.", min),
    _Gauge("last_success_timestamp_seconds", "When the last run that was done ended.", min),
    _Gauge("runs_failed", "Runs since the last that was done which failed, or whose collector died."),
)
_OTHERS: Final = (
    _Gauge("running", "Whether a run has the lease."),
    _Gauge("objects", "Objects that the newest mark has seen."),
    _Gauge("marked_objects", "Objects that the newest mark lists to be deleted."),
    _Gauge("marked_bytes", "Their bytes."),
    _Gauge("deleted_objects", "Objects that the last sweep deleted."),
    _Gauge("deleted_bytes", "Their bytes."),
)


class GcMetrics:
    """The metrics of all repositories that were ever collected."""

    def __init__(self, kv: KVStore, repositories: Repositories, *, clock: Clock, by_repository: bool) -> None:
        self._kv = kv
        self._repositories = repositories
        self._clock = clock
        self._by_repository = by_repository
        self._text = b""
        self._until = 0.0
        self._asking = asyncio.Lock()

    async def text(self) -> bytes:
        """Return them in Prometheus' format; nothing if the database does not answer."""
        async with self._asking:
            if self._clock.monotonic() >= self._until:
                try:
                    states = await self._states()
                except LakebedError:
                    return b""
                registry = CollectorRegistry()
                registry.register(GcStates(states, by_repository=self._by_repository))
                self._text = generate_latest(registry)
                self._until = self._clock.monotonic() + GC_METRICS_SECONDS
        return self._text

    async def _states(self) -> dict[str, GcState]:
        """Return the run records, by repository: of the most recent runs, if there are too many."""
        found: dict[str, GcState] = {}
        live = [each.value async for each in self._repositories.scan() if isinstance(each.value, Repository)]
        items = await self._kv.get_many([(repo.partition, GC_STATE_KEY) for repo in live])
        for repo, item in zip(live, items, strict=True):
            if item is not None:
                found[repo.name] = decode_gc_state(item.value)
        newest = sorted(found, key=lambda name: found[name].last_started_at, reverse=True)
        return {name: found[name] for name in newest[:GC_METRICS_REPOSITORIES]}


class GcStates(Collector):
    """Run records as metrics."""

    def __init__(self, states: Mapping[str, GcState], *, by_repository: bool) -> None:
        self._states = states
        self._by_repository = by_repository

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics."""
        for gauge in _BY_KIND:
            family = GaugeMetricFamily(f"lakebed_gc_{gauge.name}", gauge.text, labels=["repository", "kind"])
            for kind in RunKind:
                values = {name: _of_kind(state, kind).get(gauge.name) for name, state in self._states.items()}
                for name, value in self._shown(gauge, values):
                    family.add_metric([name, kind.value], value)
            yield family
        for gauge in _OTHERS:
            family = GaugeMetricFamily(f"lakebed_gc_{gauge.name}", gauge.text, labels=["repository"])
            values = {name: _amounts(state).get(gauge.name) for name, state in self._states.items()}
            for name, value in self._shown(gauge, values):
                family.add_metric([name], value)
            yield family

    def _shown(self, gauge: _Gauge, values: Mapping[str, float | None]) -> list[tuple[str, float]]:
        known = sorted((name, value) for name, value in values.items() if value is not None)
        if self._by_repository or not known:
            return known
        return [(ALL, gauge.together([value for _, value in known]))]


def _of_kind(state: GcState, kind: RunKind) -> dict[str, float]:
    runs = [run for run in state.runs if run.kind is kind]
    if not runs:
        return {}
    found = {
        "last_run_timestamp_seconds": runs[0].started_at / SECOND,
        "runs_failed": float(_failures(runs, state)),
    }
    ended = next((run.ended_at for run in runs if run.ended_at and run.outcome == DONE), None)
    if ended is not None:
        found["last_success_timestamp_seconds"] = ended / SECOND
    return found


def _failures(runs: Iterable[Run], state: GcState) -> int:
    """Return how many of the newest runs were not done; one that goes on is none."""
    count = 0
    for run in runs:
        if run.outcome == DONE:
            break
        if state.lease is None or state.lease.run != run.id:
            count += 1
    return count


def _amounts(state: GcState) -> dict[str, float]:
    found = {"running": float(state.lease is not None)}
    counts = state.marks[0].counts if state.marks else {}
    for gauge, name in (
        ("objects", "objects"),
        ("marked_objects", "marked"),
        ("marked_bytes", "marked_bytes"),
    ):
        if name in counts:
            found[gauge] = float(counts[name])
    swept = next((run for run in state.runs if run.kind is RunKind.SWEEP and run.counts), None)
    if swept is not None:
        found["deleted_objects"] = float(swept.counts.get("deleted", 0))
        found["deleted_bytes"] = float(swept.counts.get("deleted_bytes", 0))
    return found
