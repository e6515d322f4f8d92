"""How many requests there were and how long they took, by operation, over all workers.

Each worker counts in numbers that live in a mapped file of its own, so that whoever is
asked for the metrics can add up everybody's, and counting costs a few additions: no lock,
no system call, no label look-up. The file of a worker that ended stays until the server
starts again, so sums never go down.

    names of the operations (JSON) | padding to 8 | for each operation: CELLS doubles
    cells:  answers by status class 1xx..5xx | seconds in all | answers by bucket of seconds
"""

import mmap
import struct
from array import array
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from lakebed.telemetry.mapped import make_whole

_BOUNDS: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0)
_CLASSES: Final = 5
_SUM: Final = _CLASSES
_BUCKETS: Final = _CLASSES + 1
_CELLS: Final = _BUCKETS + len(_BOUNDS) + 1
_SIZE: Final = struct.Struct("<Q")
_SUFFIX: Final = ".requests"


class RequestMeter:
    """The numbers of one process."""

    __slots__ = ("_cells", "_memory", "_places")

    def __init__(self, operations: Sequence[str], file: Path | None = None) -> None:
        """Count in `file`, which must not exist, or in memory only."""
        head = msgspec.json.encode(list(operations))
        head = _SIZE.pack(len(head)) + head
        head += b" " * (-len(head) % 8)
        size = len(head) + 8 * _CELLS * len(operations)
        if file is None:
            self._memory: mmap.mmap | bytearray = bytearray(size)
        else:
            make_whole(file, size)
            with file.open("r+b") as opened:
                self._memory = mmap.mmap(opened.fileno(), size)
        self._memory[: len(head)] = head
        self._cells = memoryview(self._memory)[len(head) :].cast("d")
        self._places = {name: _CELLS * index for index, name in enumerate(operations)}

    def place(self, operation: str) -> int:
        """Return where an operation counts, for `observe`."""
        return self._places[operation]

    def observe(self, place: int, status: int, seconds: float) -> None:
        """Count one answer."""
        cells = self._cells
        cells[place + status // 100 - 1] += 1
        cells[place + _SUM] += seconds
        cells[place + _BUCKETS + bisect_left(_BOUNDS, seconds)] += 1


class RequestMetrics(Collector):
    """The sums over all files in a folder, for a Prometheus registry."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics."""
        sums: dict[str, list[float]] = {}
        for file in self._folder.glob(f"*{_SUFFIX}"):
            for name, cells in _read(file.read_bytes()):
                before = sums.get(name)
                sums[name] = [a + b for a, b in zip(before, cells, strict=True)] if before else cells
        seconds = HistogramMetricFamily(
            "lakebed_request_seconds", "Time to answer a request.", labels=["operation"]
        )
        answers = CounterMetricFamily(
            "lakebed_requests", "Requests by the class of their status.", labels=["operation", "status"]
        )
        for name, cells in sorted(sums.items()):
            seen = 0.0
            buckets: list[tuple[str, float]] = []
            for bound, count in zip((*map(str, _BOUNDS), "+Inf"), cells[_BUCKETS:], strict=True):
                seen += count
                buckets.append((bound, seen))
            if seen:
                seconds.add_metric([name], buckets, cells[_SUM])
            for index, count in enumerate(cells[:_CLASSES]):
                if count:
                    answers.add_metric([name, f"{index + 1}xx"], count)
        yield seconds
        yield answers


def meter_file(folder: Path, process: str) -> Path:
    """Return where the process of that name counts."""
    return folder / f"{process}{_SUFFIX}"


def _read(data: bytes) -> Iterator[tuple[str, list[float]]]:
    (size,) = _SIZE.unpack_from(data)
    names = msgspec.json.decode(data[_SIZE.size : _SIZE.size + size], type=list[str])
    at = _SIZE.size + size
    at += -at % 8
    cells = array("d", data[at:])
    for index, name in enumerate(names):
        yield name, cells[_CELLS * index : _CELLS * (index + 1)].tolist()
