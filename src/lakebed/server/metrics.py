"""What `/metrics` answers: the numbers of all workers, whichever of them is asked.

Requests are counted in files of ours (`telemetry.requests`); what the Prometheus library
counts, it keeps in files of its own if the supervisor has named a folder for them before
the library is loaded. Both live in one folder, which every start of the server empties:
the numbers of a worker that died still count until then.

Anyone may ask, and an answer takes ten milliseconds of the event loop: it is made once a second.
"""

import errno
import math
import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector

from lakebed.env.clock import Clock
from lakebed.errors import ErrorKind, UnavailableError
from lakebed.limits import METRICS_SECONDS
from lakebed.telemetry.mapped import make_whole
from lakebed.telemetry.requests import RequestMeter, RequestMetrics, meter_file

LIBRARY_VARIABLE = "PROMETHEUS_MULTIPROC_DIR"
CONTENT_TYPE = CONTENT_TYPE_LATEST.encode()

# The kinds of metrics that we have, as the library names their files. A worker fills half of one.
_LIBRARY_FILES: Final = ("counter", "histogram", "gauge_mostrecent")
_LIBRARY_FILE_BYTES: Final = 128 * 1024


def fresh_folder(folder: Path) -> Path:
    """Return the folder of all metrics, empty."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(mode=0o700, parents=True)
    return folder


def reserve(folder: Path) -> None:
    """Create the files that the library of this process will map; it would make them without blocks.

    Raises:
        UnavailableError: `DISK_FULL`.
    """
    with _room(folder):
        for kind in _LIBRARY_FILES:
            make_whole(folder / f"{kind}_{os.getpid()}.db", _LIBRARY_FILE_BYTES)


@contextmanager
def _room(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno not in {errno.ENOSPC, errno.EDQUOT}:
            raise
        raise UnavailableError(
            ErrorKind.DISK_FULL, f"the disk that holds {folder} is full: free space there, then try again"
        ) from error


class Metrics:
    """The numbers of one worker, and how to read everybody's."""

    def __init__(
        self, folder: Path, process: str, operations: Iterable[str], *, shared: bool, clock: Clock
    ) -> None:
        """Count in `folder`; `shared` if the Prometheus library does so too.

        Raises:
            UnavailableError: `DISK_FULL`.
        """
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if shared:
            reserve(folder)
        self._folder = folder
        self._shared = shared
        self._clock = clock
        self._text = b""
        self._until = -math.inf
        self.registry = CollectorRegistry()
        with _room(folder):
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
