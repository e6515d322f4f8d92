"""The metrics of local storage: every call is counted, and of the frequent ones one in 64 is timed.

As `kv/wrappers/sampled.py` for a database that is embedded. Bytes are counted all, where the caller has them at hand; of what
is read in one piece, those of the calls that are timed stand for the others.
"""

from collections.abc import AsyncIterator, Coroutine
from typing import Any, Final, TypeVar

from lakebed.env.clock import Clock
from lakebed.limits import SAMPLED_CALLS
from lakebed.objects.port import ByteRange, ETag, ObjectInfo, ObjectStore, PutMode, PutWhen
from lakebed.objects.wrappers.metrics import MeteredObjects, ObjectMeters

T = TypeVar("T")

ANY_OUTCOME: Final = "any"

_MASK: Final = SAMPLED_CALLS - 1
assert SAMPLED_CALLS & _MASK == 0, "a power of two"


class SampledObjects(MeteredObjects):
    """An `ObjectStore` that counts the calls to another one, and times a few of the frequent ones."""

    def __init__(self, inner: ObjectStore, *, meters: ObjectMeters, clock: Clock) -> None:
        super().__init__(inner, meters=meters, clock=clock)
        self._puts = self._gets = self._heads = self._streams = 0
        self._written = 0

    def put(self, key: str, data: bytes, *, when: PutWhen = PutMode.CREATE) -> Coroutine[Any, Any, ETag]:
        self._puts += 1
        self._written += len(data)
        call = self._inner.put(key, data, when=when)
        if self._puts & _MASK != 1:
            return call
        self._meters.bytes.labels("written").inc(self._written)
        self._written = 0
        return self._sample("put", self._puts, call)

    def get(self, key: str, *, byte_range: ByteRange | None = None) -> Coroutine[Any, Any, bytes]:
        self._gets += 1
        call = self._inner.get(key, byte_range=byte_range)
        return call if self._gets & _MASK != 1 else self._get(self._gets, call)

    def stream(self, key: str, *, byte_range: ByteRange | None = None) -> AsyncIterator[bytes]:
        self._streams += 1
        chunks = self._inner.stream(key, byte_range=byte_range)
        return chunks if self._streams & _MASK != 1 else self._timed(self._streams, chunks)

    def head(self, key: str) -> Coroutine[Any, Any, ObjectInfo | None]:
        self._heads += 1
        call = self._inner.head(key)
        return call if self._heads & _MASK != 1 else self._sample("head", self._heads, call)

    async def _timed(self, count: int, chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        self._meters.calls.labels("stream", ANY_OUTCOME).inc(_since_last(count))
        while True:
            started = self._clock.monotonic()
            chunk = await anext(chunks, None)
            self._meters.seconds.labels("stream").observe(self._clock.monotonic() - started)
            if chunk is None:
                return
            self._meters.bytes.labels("read").inc(len(chunk) * _since_last(count))
            yield chunk

    async def _get(self, count: int, call: Coroutine[Any, Any, bytes]) -> bytes:
        data = await self._sample("get", count, call)
        self._meters.bytes.labels("read").inc(len(data) * _since_last(count))
        return data

    async def _sample(self, operation: str, count: int, call: Coroutine[Any, Any, T]) -> T:
        self._meters.calls.labels(operation, ANY_OUTCOME).inc(_since_last(count))
        started = self._clock.monotonic()
        try:
            return await call
        finally:
            self._meters.seconds.labels(operation).observe(self._clock.monotonic() - started)


def _since_last(count: int) -> int:
    """Return how many calls there were since the last that was timed."""
    return 1 if count == 1 else SAMPLED_CALLS
