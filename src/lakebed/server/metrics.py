"""What `/metrics` answers: the numbers of all workers, whichever of them is asked.

Requests are counted in files of ours (`telemetry.requests`); what the Prometheus library
counts, it keeps in files of its own if the supervisor has named a folder for them before
the library is loaded. Both live in one folder, which every start of the server empties:
the numbers of a worker that died still count until then.

Anyone may ask, and an answer takes ten milliseconds of the event loop: it is made once a second.
"""

import math
import shutil
from collections.abc import Iterable
from pathlib import Path

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector

from lakebed.env.clock import Clock
from lakebed.limits import METRICS_SECONDS
from lakebed.telemetry.requests import RequestMeter, RequestMetrics, meter_file

LIBRARY_VARIABLE = "PROMETHEUS_MULTIPROC_DIR"
CONTENT_TYPE = CONTENT_TYPE_LATEST.encode()


def fresh_folder(folder: Path) -> Path:
    """Return the folder of all metrics, empty."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(mode=0o700, parents=True)
    return folder


class Metrics:
    """The numbers of one worker, and how to read everybody's."""

    def __init__(
        self, folder: Path, process: str, operations: Iterable[str], *, shared: bool, clock: Clock
    ) -> None:
        """Count in `folder`; `shared` if the Prometheus library does so too."""
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._folder = folder
        self._shared = shared
        self._clock = clock
        self._text = b""
        self._until = -math.inf
        self.registry = CollectorRegistry()
        self.requests = RequestMeter(list(operations), meter_file(folder, process))

    def text(self) -> bytes:
        """Return all numbers in Prometheus' format, as they were within the last second."""
        if self._clock.monotonic() >= self._until:
            self._text = self._collected()
            self._until = self._clock.monotonic() + METRICS_SECONDS
        return self._text

    def _collected(self) -> bytes:
        everybody = CollectorRegistry()
        everybody.register(RequestMetrics(self._folder))
        if self._shared:
            # The library has no types here.
            MultiProcessCollector(everybody, str(self._folder))  # type: ignore[no-untyped-call]
            return generate_latest(everybody)
        return generate_latest(everybody) + generate_latest(self.registry)
