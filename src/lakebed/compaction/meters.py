"""What compaction counts for Prometheus.

Write amplification is bytes written by bytes flushed, over any time: the quotient of two counters, so that
whoever looks chooses the time.
"""

from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from lakebed.compaction.jobs import Made
from lakebed.compaction.service import Backlog
from lakebed.model.compaction import JobKind

# From a few thousand rows to the largest job there is.
_BUCKETS: Final = (0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)


class CompactionMeters:
    """The numbers of one worker."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._seconds = Histogram(
            "lakebed_compaction_seconds",
            "Time of one job, its install included.",
            ["kind"],
            registry=registry,
            buckets=_BUCKETS,
        )
        self._jobs = Counter(
            "lakebed_compaction_jobs", "Jobs by how they ended.", ["kind", "outcome"], registry=registry
        )
        self._rows = Counter("lakebed_compaction_rows", "Changes merged.", ["kind"], registry=registry)
        self._read = Counter(
            "lakebed_compaction_read_bytes", "Bytes of changes merged.", ["kind"], registry=registry
        )
        self._written = Counter(
            "lakebed_compaction_written_bytes", "Bytes of files made.", ["kind"], registry=registry
        )
        self._flushed = Counter(
            "lakebed_compaction_flushed_bytes",
            "Bytes of layers merged for the first time, as writers made them.",
            registry=registry,
        )
        self._lost = Counter(
            "lakebed_compaction_leases_lost", "Jobs that a worker had to stop.", registry=registry
        )
        # Every process sees the same backlog: whoever looked last knows best.
        self._layers = Gauge(
            "lakebed_compaction_sealed_layers",
            "Sealed layers of all branches.",
            registry=registry,
            multiprocess_mode="mostrecent",
        )
        self._layers_max = Gauge(
            "lakebed_compaction_sealed_layers_max",
            "Sealed layers of the branch that has the most.",
            registry=registry,
            multiprocess_mode="mostrecent",
        )
        self._queue = Gauge(
            "lakebed_compaction_queue",
            "Jobs that wait for a worker, by level.",
            ["level"],
            registry=registry,
            multiprocess_mode="mostrecent",
        )
        self._parked = Gauge(
            "lakebed_compaction_parked",
            "Jobs that failed too often.",
            registry=registry,
            multiprocess_mode="mostrecent",
        )

    def ended(self, kind: JobKind, outcome: str, *, seconds: float, made: Made | None) -> None:
        """Count a job."""
        self._jobs.labels(kind.value, outcome).inc()
        self._seconds.labels(kind.value).observe(seconds)
        if made is not None:
            self._rows.labels(kind.value).inc(made.rows)
            self._read.labels(kind.value).inc(made.bytes_read)
            self._written.labels(kind.value).inc(made.bytes_written)

    def flushed(self, size: int) -> None:
        """Count the bytes of layers that were merged for the first time."""
        self._flushed.inc(size)

    def lost(self) -> None:
        """Count a job that this worker had to stop."""
        self._lost.inc()

    def saw(self, backlog: Backlog) -> None:
        """Show what a poll saw."""
        self._layers.set(backlog.layers)
        self._layers_max.set(backlog.layers_max)
        self._parked.set(backlog.parked)
        for kind, waiting in backlog.waiting.items():
            self._queue.labels(str(kind.level)).set(waiting)
