"""How long each call to the object store takes, how it ends and how much it moves, for Prometheus.

The registry comes in from outside, so that a process decides what it exposes and
a test reads its own numbers. The time of a stream is that of each of its pieces.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Mapping, Sequence
from typing import Final, TypeVar

from prometheus_client import CollectorRegistry, Counter, Histogram

from lakebed.env.clock import Clock
from lakebed.errors import (
    AlreadyExistsError,
    InvalidInputError,
    LakebedError,
    NotFoundError,
    PreconditionError,
    UnavailableError,
    is_unknown,
)
from lakebed.objects.port import (
    ByteRange,
    Capabilities,
    ETag,
    ObjectInfo,
    ObjectStore,
    OpenUpload,
    Part,
    PutMode,
    PutWhen,
)

T = TypeVar("T")

# From a file in the page cache to an upload of gigabytes.
_BUCKETS: Final = (1e-5, 1e-4, 5e-4, 1e-3, 5e-3, 1e-2, 2.5e-2, 5e-2, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 60)


class ObjectMeters:
    """The numbers of all stores of one process: a registry takes each name once."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.seconds = Histogram(
            "lakebed_objects_seconds",
            "Time of one call to the object store; of a listing or a stream, of one page or piece.",
            ["operation"],
            registry=registry,
            buckets=_BUCKETS,
        )
        self.calls = Counter(
            "lakebed_objects_calls",
            "Calls to the object store by how they ended.",
            ["operation", "outcome"],
            registry=registry,
        )
        self.bytes = Counter(
            "lakebed_objects_bytes",
            "Bytes written to and read from the store.",
            ["direction"],
            registry=registry,
        )


class MeteredObjects:
    """An `ObjectStore` that counts and times the calls to another one."""

    def __init__(self, inner: ObjectStore, *, meters: ObjectMeters, clock: Clock) -> None:
        self._inner = inner
        self._clock = clock
        self._meters = meters

    @property
    def capabilities(self) -> Capabilities:
        return self._inner.capabilities

    async def put(self, key: str, data: bytes, *, when: PutWhen = PutMode.CREATE) -> ETag:
        etag = await self._measure("put", self._inner.put(key, data, when=when))
        self._meters.bytes.labels("written").inc(len(data))
        return etag

    async def put_stream(
        self, key: str, chunks: AsyncIterator[bytes], *, when: PutWhen = PutMode.CREATE
    ) -> ETag:
        return await self._measure(
            "put_stream", self._inner.put_stream(key, self._counted(chunks), when=when)
        )

    async def get(self, key: str, *, byte_range: ByteRange | None = None) -> bytes:
        data = await self._measure("get", self._inner.get(key, byte_range=byte_range))
        self._meters.bytes.labels("read").inc(len(data))
        return data

    async def stream(self, key: str, *, byte_range: ByteRange | None = None) -> AsyncIterator[bytes]:
        chunks = aiter(self._inner.stream(key, byte_range=byte_range))
        while (chunk := await self._measure("stream", anext(chunks, None))) is not None:
            self._meters.bytes.labels("read").inc(len(chunk))
            yield chunk

    async def head(self, key: str) -> ObjectInfo | None:
        return await self._measure("head", self._inner.head(key))

    async def list(
        self, prefix: str = "", *, start_after: str = "", page_items_max: int = 1000
    ) -> AsyncIterator[Sequence[ObjectInfo]]:
        pages = aiter(self._inner.list(prefix, start_after=start_after, page_items_max=page_items_max))
        while (page := await self._measure("list", anext(pages, None))) is not None:
            yield page

    async def delete(self, keys: Sequence[str]) -> None:
        await self._measure("delete", self._inner.delete(keys))

    async def copy(self, source: str, target: str) -> ETag:
        return await self._measure("copy", self._inner.copy(source, target))

    async def sign(
        self, method: str, key: str, *, seconds: int, answer: Mapping[str, str] | None = None
    ) -> str:
        return await self._measure("sign", self._inner.sign(method, key, seconds=seconds, answer=answer))

    async def sign_parts(
        self, key: str, upload: str, numbers: Sequence[int], *, seconds: int
    ) -> Sequence[str]:
        return await self._measure(
            "sign_parts", self._inner.sign_parts(key, upload, numbers, seconds=seconds)
        )

    async def create_upload(self, key: str) -> str:
        return await self._measure("create_upload", self._inner.create_upload(key))

    async def put_part(self, key: str, upload: str, number: int, data: bytes) -> Part:
        part = await self._measure("put_part", self._inner.put_part(key, upload, number, data))
        self._meters.bytes.labels("written").inc(len(data))
        return part

    async def put_part_stream(
        self, key: str, upload: str, number: int, chunks: AsyncIterator[bytes], *, size_bytes: int
    ) -> Part:
        counted = self._counted(chunks)
        return await self._measure(
            "put_part_stream",
            self._inner.put_part_stream(key, upload, number, counted, size_bytes=size_bytes),
        )

    async def copy_part(
        self, key: str, upload: str, number: int, source: str, *, byte_range: ByteRange | None = None
    ) -> Part:
        return await self._measure(
            "copy_part", self._inner.copy_part(key, upload, number, source, byte_range=byte_range)
        )

    async def complete_upload(self, key: str, upload: str, parts: Sequence[Part]) -> ETag:
        return await self._measure("complete_upload", self._inner.complete_upload(key, upload, parts))

    async def abort_upload(self, key: str, upload: str) -> None:
        await self._measure("abort_upload", self._inner.abort_upload(key, upload))

    async def list_uploads(self) -> AsyncIterator[Sequence[OpenUpload]]:
        pages = aiter(self._inner.list_uploads())
        while (page := await self._measure("list_uploads", anext(pages, None))) is not None:
            yield page

    async def remove_if_empty(self) -> bool:
        return await self._measure("remove_if_empty", self._inner.remove_if_empty())

    async def close(self) -> None:
        await self._inner.close()

    async def _counted(self, chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        async for chunk in chunks:
            self._meters.bytes.labels("written").inc(len(chunk))
            yield chunk

    async def _measure(self, operation: str, call: Awaitable[T]) -> T:
        started = self._clock.monotonic()
        outcome = "failed"
        try:
            result = await call
            outcome = "done"
            return result
        except LakebedError as error:
            outcome = _outcome(error)
            raise
        except asyncio.CancelledError:
            outcome = "cancelled"
            raise
        finally:
            self._meters.seconds.labels(operation).observe(self._clock.monotonic() - started)
            self._meters.calls.labels(operation, outcome).inc()


def _outcome(error: LakebedError) -> str:
    match error:
        case NotFoundError():
            return "missing"
        case AlreadyExistsError() | PreconditionError():
            return "refused"
        case InvalidInputError():
            return "invalid"
        case UnavailableError():
            return "unknown" if is_unknown(error) else "unavailable"
        case _:
            return "failed"
