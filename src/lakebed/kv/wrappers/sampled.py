"""The metrics of an embedded store: every call is counted, and one in 64 is timed.

A read of an embedded store takes a few microseconds, and to measure each would take as long again. So the frequent calls go
straight through, without a frame of ours on the way: a number is added to, and every 64th call is measured and tells how
many there were. How those calls end is not told apart. All others are measured as those of a remote store are.
"""

from collections.abc import AsyncIterator, Coroutine, Sequence
from typing import Any, Final, TypeVar

from prometheus_client import CollectorRegistry

from lakebed.env.clock import Clock, Instant
from lakebed.kv.port import Expect, Fence, Item, KVStore, Page, Row, Version, VersionFence
from lakebed.kv.wrappers.metrics import MeteredKV
from lakebed.limits import SAMPLED_CALLS, SCAN_PAGE_ITEMS

T = TypeVar("T")

ANY_OUTCOME: Final = "any"

_MASK: Final = SAMPLED_CALLS - 1
assert SAMPLED_CALLS & _MASK == 0, "a power of two"


class SampledKV(MeteredKV):
    """A `KVStore` that counts the calls to another one, and times a few."""

    def __init__(self, inner: KVStore, *, registry: CollectorRegistry, clock: Clock) -> None:
        super().__init__(inner, registry=registry, clock=clock)
        self._gets = self._get_manys = self._swaps = self._sets = self._scans = self._nows = 0
        self._rows_set = 0
        # What every request calls, found once.
        self._get, self._get_many = inner.get, inner.get_many

    def get(self, partition: str, key: bytes) -> Coroutine[Any, Any, Item | None]:
        self._gets = count = self._gets + 1
        if count & _MASK == 1:
            return self._sample("get", count, self._inner.get(partition, key))
        return self._get(partition, key)

    def get_many(self, lookups: Sequence[tuple[str, bytes]]) -> Coroutine[Any, Any, list[Item | None]]:
        self._get_manys = count = self._get_manys + 1
        if count & _MASK == 1:
            return self._sample("get_many", count, self._inner.get_many(lookups))
        return self._get_many(lookups)

    def swap(
        self,
        partition: str,
        key: bytes,
        value: bytes,
        *,
        expected: Version | Expect,
        names: tuple[bytes, ...] = (),
        fence: VersionFence | None = None,
    ) -> Coroutine[Any, Any, Version]:
        self._swaps += 1
        call = self._inner.swap(partition, key, value, expected=expected, names=names, fence=fence)
        return call if self._swaps & _MASK != 1 else self._sample("swap", self._swaps, call)

    def set_rows(
        self,
        partition: str,
        rows: Sequence[Row],
        *,
        fence: Fence | None = None,
        not_after: Instant | None = None,
    ) -> Coroutine[Any, Any, None]:
        self._sets += 1
        self._rows_set += len(rows)
        call = self._inner.set_rows(partition, rows, fence=fence, not_after=not_after)
        if self._sets & _MASK != 1:
            return call
        self._rows.labels("set_rows").inc(self._rows_set)
        self._rows_set = 0
        return self._sample("set_rows", self._sets, call)

    def scan(
        self,
        partition: str,
        *,
        start: bytes = b"",
        end: bytes | None = None,
        page_items_max: int = SCAN_PAGE_ITEMS,
    ) -> AsyncIterator[Page]:
        self._scans += 1
        pages = self._inner.scan(partition, start=start, end=end, page_items_max=page_items_max)
        return pages if self._scans & _MASK != 1 else self._timed(self._scans, pages)

    def now(self) -> Coroutine[Any, Any, Instant]:
        self._nows += 1
        call = self._inner.now()
        return call if self._nows & _MASK != 1 else self._sample("now", self._nows, call)

    async def _timed(self, count: int, pages: AsyncIterator[Page]) -> AsyncIterator[Page]:
        """Time every page of one scan; it counts as all scans since the last that was timed."""
        self._tell("scan", count)
        while True:
            started = self._clock.monotonic()
            page = await anext(pages, None)
            self._seconds.labels("scan").observe(self._clock.monotonic() - started)
            if page is None:
                return
            yield page

    async def _sample(self, operation: str, count: int, call: Coroutine[Any, Any, T]) -> T:
        self._tell(operation, count)
        started = self._clock.monotonic()
        try:
            return await call
        finally:
            self._seconds.labels(operation).observe(self._clock.monotonic() - started)

    def _tell(self, operation: str, count: int) -> None:
        """Say that there were so many calls: all since the last time."""
        self._calls.labels(operation, ANY_OUTCOME).inc(1 if count == 1 else SAMPLED_CALLS)
