"""The port in a dict: for tests and the simulation, and the shortest reading of the contract.

`fences=False` makes it play a database that cannot check another record in the
same step, so that the engine's other way (tentative refs, segments) is tested too.
"""

from bisect import bisect_left
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

from lakebed.env.clock import Clock, Instant, SystemClock
from lakebed.errors import ConflictError, ErrorKind
from lakebed.kv.checks import (
    check_fence_supported,
    check_key,
    check_keys,
    check_partition,
    check_rows,
    check_value,
    version_changed,
)
from lakebed.kv.copying import Place, Record
from lakebed.kv.port import Capabilities, Expect, Fence, Item, NamesFence, Page, Row, Version, VersionFence
from lakebed.limits import (
    COPY_PAGE_ROWS,
    KV_KEY_BYTES_MAX,
    KV_VALUE_BYTES_MAX,
    SCAN_PAGE_BYTES,
    SCAN_PAGE_ITEMS,
)


async def open_memory(url: str, *, clock: Clock) -> "MemoryKV":  # noqa: ARG001  every opener takes the URL
    """Return an empty store."""
    return MemoryKV(clock=clock)


@dataclass(slots=True)
class _Record:
    value: bytes
    version: Version
    names: tuple[bytes, ...]


class MemoryKV:
    """A `KVStore` that forgets everything when it goes."""

    def __init__(self, *, clock: Clock | None = None, fences: bool = True) -> None:
        self._clock = clock or SystemClock()
        self._partitions: dict[str, dict[bytes, _Record]] = {}
        self._ordered: dict[str, list[bytes]] = {}
        """The sorted keys of partitions that were scanned and have had no key come or go since."""
        self._version = 0
        self.capabilities = Capabilities(
            fences=fences,
            engine_time=False,
            key_bytes_max=KV_KEY_BYTES_MAX,
            value_bytes_max=KV_VALUE_BYTES_MAX,
        )

    async def get(self, partition: str, key: bytes) -> Item | None:
        return self._get(partition, key)

    async def get_many(self, lookups: Sequence[tuple[str, bytes]]) -> list[Item | None]:
        return [self._get(partition, key) for partition, key in lookups]

    async def swap(
        self,
        partition: str,
        key: bytes,
        value: bytes,
        *,
        expected: Version | Expect,
        names: tuple[bytes, ...] = (),
        fence: VersionFence | None = None,
    ) -> Version:
        check_partition(partition)
        check_key(key, self.capabilities)
        check_value(value, self.capabilities)
        self._check_fence(fence)
        if not self._matches(partition, key, expected):
            raise version_changed(key, expected)
        return self._write(partition, key, value, names)

    async def set_rows(
        self,
        partition: str,
        rows: Sequence[Row],
        *,
        fence: Fence | None = None,
        not_after: Instant | None = None,
    ) -> None:
        check_partition(partition)
        check_rows(rows, self.capabilities)
        self._check_fence(fence)
        if not_after is not None and self._clock.now() > not_after:
            raise ConflictError(ErrorKind.TOO_LATE, "the time for this write is over")
        seen: set[bytes] = set()
        for row in rows:
            if row.key not in seen and not self._matches(partition, row.key, row.expected):
                raise ConflictError(
                    ErrorKind.ROW_CHANGED, f"row {row.key!r} is no longer at version {row.expected}"
                )
            seen.add(row.key)
        for row in rows:
            self._write(partition, row.key, row.value, ())

    async def remove(self, partition: str, key: bytes, *, expected: Version) -> None:
        check_partition(partition)
        check_key(key, self.capabilities)
        if not self._matches(partition, key, expected):
            raise version_changed(key, expected)
        await self.delete_rows(partition, [key])

    async def delete_rows(self, partition: str, keys: Sequence[bytes]) -> None:
        check_partition(partition)
        check_keys(keys, self.capabilities)
        records = self._partitions.get(partition, {})
        for key in keys:
            records.pop(key, None)
        self._ordered.pop(partition, None)
        if not records:
            self._partitions.pop(partition, None)

    async def drop(self, partition: str, *, first: Sequence[bytes] = ()) -> None:
        await self.delete_rows(partition, first)
        self._ordered.pop(partition, None)
        self._partitions.pop(partition, None)

    async def scan(
        self,
        partition: str,
        *,
        start: bytes = b"",
        end: bytes | None = None,
        page_items_max: int = SCAN_PAGE_ITEMS,
    ) -> AsyncIterator[Page]:
        check_partition(partition)
        while True:
            records = self._partitions.get(partition, {})
            ordered = self._keys_in_order(partition)
            low = bisect_left(ordered, start)
            high = len(ordered) if end is None else bisect_left(ordered, end)
            keys = ordered[low : min(high, low + page_items_max)]
            if not keys:
                return
            before = accumulate((len(records[key].value) for key in keys), initial=0)
            keys = [key for key, size in zip(keys, before, strict=False) if size <= SCAN_PAGE_BYTES]
            found = [records[key] for key in keys]
            yield Page(keys, [r.value for r in found], [r.version for r in found])
            start = keys[-1] + b"\0"

    async def records(self, *, after: Place | None = None) -> AsyncIterator[Sequence[Record]]:
        found = [
            Record(partition, key, record.value, record.names)
            for partition, records in self._partitions.items()
            for key, record in records.items()
        ]
        found.sort(key=lambda record: (record.partition, record.key))
        left = [
            each
            for each in found
            if after is None or (each.partition, each.key) > (after.partition, after.key)
        ]
        for at in range(0, len(left), COPY_PAGE_ROWS):
            yield left[at : at + COPY_PAGE_ROWS]

    async def load(self, records: Sequence[Record]) -> None:
        for record in records:
            self._write(record.partition, record.key, record.value, record.names)

    async def last_version(self) -> Version:
        return Version(self._version)

    async def raise_version(self, least: Version) -> None:
        self._version = max(self._version, least)

    async def other_users(self) -> list[str]:
        return []

    async def now(self) -> Instant:
        return self._clock.now()

    async def close(self) -> None:
        return None

    def _get(self, partition: str, key: bytes) -> Item | None:
        check_partition(partition)
        check_key(key, self.capabilities)
        record = self._partitions.get(partition, {}).get(key)
        return Item(key, record.value, record.version) if record else None

    def _matches(self, partition: str, key: bytes, expected: Version | Expect) -> bool:
        record = self._partitions.get(partition, {}).get(key)
        match expected:
            case Expect.ANY:
                return True
            case Expect.ABSENT:
                return record is None
            case version:
                return record is not None and record.version == version

    def _write(self, partition: str, key: bytes, value: bytes, names: tuple[bytes, ...]) -> Version:
        self._version += 1
        record = _Record(bytes(value), Version(self._version), names)
        records = self._partitions.setdefault(partition, {})
        if key not in records:
            self._ordered.pop(partition, None)
        records[key] = record
        return record.version

    def _keys_in_order(self, partition: str) -> list[bytes]:
        if partition not in self._ordered and partition in self._partitions:
            self._ordered[partition] = sorted(self._partitions[partition])
        return self._ordered.get(partition, [])

    def _check_fence(self, fence: Fence | None) -> None:
        check_fence_supported(fence, self.capabilities)
        if fence is None:
            return
        record = self._partitions.get(fence.partition, {}).get(fence.key)
        if isinstance(fence, NamesFence):
            held = record is not None and record.names[: len(fence.names)] == fence.names
        else:
            held = record is not None and record.version == fence.version
        if not held:
            raise ConflictError(ErrorKind.FENCE_LOST, f"{fence.key!r} has changed since it was read")
