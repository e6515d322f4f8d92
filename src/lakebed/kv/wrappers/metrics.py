"""How long each call to the store takes and how it ends, for Prometheus.

Outcomes are the port's own: done, conflict, unknown, unavailable, and invalid for
what was refused before it was sent. The registry comes in from outside, so that a
process decides what it exposes and a test reads its own numbers.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Sequence
from typing import Final, TypeVar

from prometheus_client import CollectorRegistry, Counter, Histogram

from lakebed.env.clock import Clock, Instant
from lakebed.errors import ConflictError, InvalidInputError, UnavailableError, is_unknown
from lakebed.kv.port import Capabilities, Expect, Fence, Item, KVStore, Page, Row, Version, VersionFence
from lakebed.limits import SCAN_PAGE_ITEMS

T = TypeVar("T")

# From an embedded read (microseconds) to a statement that is about to time out.
_BUCKETS: Final = (1e-5, 1e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 1e-2, 2.5e-2, 5e-2, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)


class MeteredKV:
    """A `KVStore` that counts and times the calls to another one."""

    def __init__(self, inner: KVStore, *, registry: CollectorRegistry, clock: Clock) -> None:
        self._inner = inner
        self._clock = clock
        self._seconds = Histogram(
            "lakebed_kv_seconds",
            "Time of one call to the key-value store; of a scan, of one page.",
            ["operation"],
            registry=registry,
            buckets=_BUCKETS,
        )
        self._calls = Counter(
            "lakebed_kv_calls",
            "Calls to the key-value store by how they ended.",
            ["operation", "outcome"],
            registry=registry,
        )
        self._rows = Counter(
            "lakebed_kv_rows", "Rows written by set_rows and read by scan.", ["operation"], registry=registry
        )

    @property
    def capabilities(self) -> Capabilities:
        return self._inner.capabilities

    async def get(self, partition: str, key: bytes) -> Item | None:
        return await self._measure("get", self._inner.get(partition, key))

    async def get_many(self, lookups: Sequence[tuple[str, bytes]]) -> list[Item | None]:
        return await self._measure("get_many", self._inner.get_many(lookups))

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
        call = self._inner.swap(partition, key, value, expected=expected, names=names, fence=fence)
        return await self._measure("swap", call)

    async def set_rows(
        self,
        partition: str,
        rows: Sequence[Row],
        *,
        fence: Fence | None = None,
        not_after: Instant | None = None,
    ) -> None:
        call = self._inner.set_rows(partition, rows, fence=fence, not_after=not_after)
        await self._measure("set_rows", call)
        self._rows.labels("set_rows").inc(len(rows))

    async def remove(self, partition: str, key: bytes, *, expected: Version) -> None:
        await self._measure("remove", self._inner.remove(partition, key, expected=expected))

    async def delete_rows(self, partition: str, keys: Sequence[bytes]) -> None:
        await self._measure("delete_rows", self._inner.delete_rows(partition, keys))

    async def drop(self, partition: str, *, first: Sequence[bytes] = ()) -> None:
        await self._measure("drop", self._inner.drop(partition, first=first))

    async def scan(
        self,
        partition: str,
        *,
        start: bytes = b"",
        end: bytes | None = None,
        page_items_max: int = SCAN_PAGE_ITEMS,
    ) -> AsyncIterator[Page]:
        pages = aiter(self._inner.scan(partition, start=start, end=end, page_items_max=page_items_max))
        while (page := await self._measure("scan", anext(pages, None))) is not None:
            self._rows.labels("scan").inc(len(page))
            yield page

    async def now(self) -> Instant:
        return await self._measure("now", self._inner.now())

    async def close(self) -> None:
        await self._inner.close()

    async def _measure(self, operation: str, call: Awaitable[T]) -> T:
        started = self._clock.monotonic()
        outcome = "failed"
        try:
            result = await call
            outcome = "done"
            return result
        except (ConflictError, UnavailableError, InvalidInputError, asyncio.CancelledError) as error:
            outcome = _outcome(error)
            raise
        finally:
            self._seconds.labels(operation).observe(self._clock.monotonic() - started)
            self._calls.labels(operation, outcome).inc()


def _outcome(error: ConflictError | UnavailableError | InvalidInputError | asyncio.CancelledError) -> str:
    match error:
        case ConflictError():
            return "conflict"
        case UnavailableError():
            return "unknown" if is_unknown(error) else "unavailable"
        case InvalidInputError():
            return "invalid"
        case asyncio.CancelledError():
            return "cancelled"
