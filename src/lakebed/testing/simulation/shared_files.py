"""`SharedFiles`: counts what becomes of segments that several branches share. It judges nothing.

A file is there before the branches that it is for; each takes its dataset by a swap of its own, or never does.
"""

from collections import Counter
from collections.abc import Mapping, Sequence

from lakebed.errors import LakebedError
from lakebed.format.records import decode_branch
from lakebed.format.segments import decode_footer
from lakebed.kv.port import Row
from lakebed.model.branch import Branch
from lakebed.model.layers import SegmentLayer
from lakebed.model.segments import SEGMENTS_FOLDER, segment_key
from lakebed.objects.drivers.memory import MemoryBucket
from lakebed.refs.keys import BRANCHES_PREFIX
from lakebed.testing.simulation.network import Delivery

SHARED = "segment shared"
TORN = "segment shared, killed between its swaps"
SWEPT = "segment shared, and swept"


class _File:
    """A segment of several datasets."""

    def __init__(self, process: str, datasets: int) -> None:
        self.process = process
        self.datasets = datasets
        self.taken: set[str] = set()


class SharedFiles:
    """A `Watcher` of the database and an `Observer` of the network."""

    def __init__(self, buckets: Mapping[str, MemoryBucket], met: Counter[str]) -> None:
        self._buckets = buckets
        self._met = met
        self._files: dict[str, _File] = {}

    def arrived(self, delivery: Delivery, what: str, *, write: bool, error: LakebedError | None) -> None:
        verb, *keys = what.split(" ")
        if error is not None or not write:
            return
        if verb == "put" and keys[0].startswith(SEGMENTS_FOLDER):
            self._put(keys[0], delivery.process)
        elif verb == "delete":
            for key in keys:
                file = self._files.pop(key, None)
                self._met[SWEPT] += file is not None and bool(file.taken)

    def swapped(self, _partition: str, key: bytes, value: bytes) -> None:
        record = decode_branch(value) if key.startswith(BRANCHES_PREFIX) else None
        if not isinstance(record, Branch):
            return
        for layer in record.sealed:
            file = self._files.get(segment_key(layer.id)) if isinstance(layer, SegmentLayer) else None
            if file is not None and isinstance(layer, SegmentLayer):
                file.taken.add(layer.dataset)

    def rows_set(self, partition: str, rows: Sequence[Row]) -> None:
        """Rows are nothing to segments."""

    def deleting(self, partition: str, keys: Sequence[bytes]) -> None:
        """Nor are those that go."""

    def removing(self, partition: str, key: bytes) -> None:
        """Nor are records that go."""

    def died(self, process: str) -> None:
        """A process was killed: whoever had not taken its dataset never will."""
        for file in self._files.values():
            if file.process == process and 0 < len(file.taken) < file.datasets:
                self._met[TORN] += 1
                file.process = ""

    def _put(self, key: str, process: str) -> None:
        data = next(b.objects[key].data for b in self._buckets.values() if key in b.objects)
        datasets = len(decode_footer(data, size=len(data)).datasets)
        if datasets > 1 and key not in self._files:
            self._files[key] = _File(process, datasets)
            self._met[SHARED] += 1
