"""Bounded retries of calls that may be repeated without harm.

Reads, deletes, parts and aborts are repeated whatever happened to the first try.
A create-only put is, too: lakebed never reuses a name with other bytes, so a key
that exists after a try of unknown outcome, with the bytes that were sent, is that
try's success. Everything else is repeated only when the store says that nothing
was done; after an unknown outcome the caller must look for itself.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import TypeVar

from lakebed.env.clock import Clock
from lakebed.env.ids import IdSource
from lakebed.errors import AlreadyExistsError, ErrorKind, InvalidInputError, UnavailableError
from lakebed.limits import STORE_ATTEMPTS_MAX, STORE_BACKOFF_SECONDS
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


class RetryingObjects:
    """An `ObjectStore` that hides short outages of the one it wraps."""

    def __init__(
        self, inner: ObjectStore, *, clock: Clock, ids: IdSource, attempts_max: int = STORE_ATTEMPTS_MAX
    ) -> None:
        self._inner = inner
        self._clock = clock
        self._ids = ids
        self._attempts_max = attempts_max

    @property
    def capabilities(self) -> Capabilities:
        return self._inner.capabilities

    async def put(self, key: str, data: bytes, *, when: PutWhen = PutMode.CREATE) -> ETag:
        if when is not PutMode.CREATE:
            return await self._retry_unapplied(lambda: self._inner.put(key, data, when=when))
        return await self._create(key, data)

    async def put_stream(
        self, key: str, chunks: AsyncIterator[bytes], *, when: PutWhen = PutMode.CREATE
    ) -> ETag:
        # A stream cannot be read twice.
        return await self._inner.put_stream(key, chunks, when=when)

    async def get(self, key: str, *, byte_range: ByteRange | None = None) -> bytes:
        return await self._retry(lambda: self._inner.get(key, byte_range=byte_range))

    async def stream(self, key: str, *, byte_range: ByteRange | None = None) -> AsyncIterator[bytes]:
        failures, done_bytes = 0, 0
        while True:
            chunks = aiter(self._inner.stream(key, byte_range=_rest(byte_range, done_bytes)))
            while True:
                try:
                    chunk = await anext(chunks, None)
                except UnavailableError as error:
                    failures += 1
                    await self._wait_or_raise(error, failures)
                    break
                except InvalidInputError as error:
                    # Broken off after the last byte: there is no rest to ask for.
                    if done_bytes and error.kind is ErrorKind.RANGE_NOT_SATISFIABLE:
                        return
                    raise
                if chunk is None:
                    return
                failures = 0
                done_bytes += len(chunk)
                yield chunk
                if byte_range and byte_range.end == byte_range.start + done_bytes:
                    return

    async def head(self, key: str) -> ObjectInfo | None:
        return await self._retry(lambda: self._inner.head(key))

    async def list(
        self, prefix: str = "", *, start_after: str = "", page_items_max: int = 1000
    ) -> AsyncIterator[Sequence[ObjectInfo]]:
        failures = 0
        while True:
            pages = aiter(self._inner.list(prefix, start_after=start_after, page_items_max=page_items_max))
            while True:
                try:
                    page = await anext(pages, None)
                except UnavailableError as error:
                    failures += 1
                    await self._wait_or_raise(error, failures)
                    break
                if page is None:
                    return
                failures = 0
                start_after = page[-1].key
                yield page

    async def delete(self, keys: Sequence[str]) -> None:
        await self._retry(lambda: self._inner.delete(keys))

    async def copy(self, source: str, target: str) -> ETag:
        return await self._retry_unapplied(lambda: self._inner.copy(source, target))

    async def sign(
        self, method: str, key: str, *, seconds: int, answer: Mapping[str, str] | None = None
    ) -> str:
        return await self._retry(lambda: self._inner.sign(method, key, seconds=seconds, answer=answer))

    async def sign_parts(
        self, key: str, upload: str, numbers: Sequence[int], *, seconds: int
    ) -> Sequence[str]:
        return await self._retry(lambda: self._inner.sign_parts(key, upload, numbers, seconds=seconds))

    async def create_upload(self, key: str) -> str:
        return await self._retry_unapplied(lambda: self._inner.create_upload(key))

    async def put_part(self, key: str, upload: str, number: int, data: bytes) -> Part:
        return await self._retry(lambda: self._inner.put_part(key, upload, number, data))

    async def put_part_stream(
        self, key: str, upload: str, number: int, chunks: AsyncIterator[bytes], *, size_bytes: int
    ) -> Part:
        # A stream cannot be read twice.
        return await self._inner.put_part_stream(key, upload, number, chunks, size_bytes=size_bytes)

    async def copy_part(
        self, key: str, upload: str, number: int, source: str, *, byte_range: ByteRange | None = None
    ) -> Part:
        return await self._retry(
            lambda: self._inner.copy_part(key, upload, number, source, byte_range=byte_range)
        )

    async def complete_upload(self, key: str, upload: str, parts: Sequence[Part]) -> ETag:
        return await self._retry_unapplied(lambda: self._inner.complete_upload(key, upload, parts))

    async def abort_upload(self, key: str, upload: str) -> None:
        await self._retry(lambda: self._inner.abort_upload(key, upload))

    async def list_uploads(self) -> AsyncIterator[Sequence[OpenUpload]]:
        failures, told = 0, set[OpenUpload]()
        while True:
            pages = aiter(self._inner.list_uploads())
            while True:
                try:
                    page = await anext(pages, None)
                except UnavailableError as error:
                    # It has no order to resume it in: it begins anew, without those that were told.
                    failures += 1
                    await self._wait_or_raise(error, failures)
                    break
                if page is None:
                    return
                failures = 0
                if fresh := [upload for upload in page if upload not in told]:
                    told.update(fresh)
                    yield fresh

    async def remove_if_empty(self) -> bool:
        return await self._retry(self._inner.remove_if_empty)

    async def close(self) -> None:
        await self._inner.close()

    async def _create(self, key: str, data: bytes) -> ETag:
        unknown = False
        for failures in range(1, self._attempts_max + 1):
            try:
                return await self._inner.put(key, data)
            except AlreadyExistsError:
                if not unknown:
                    raise
                own = await self._own_success(key, data)
                if own is None:
                    raise
                return own
            except UnavailableError as error:
                unknown = unknown or error.kind is ErrorKind.OUTCOME_UNKNOWN
                await self._wait_or_raise(_as_unknown(error) if unknown else error, failures)
        raise AssertionError("the last failure is raised")

    async def _own_success(self, key: str, data: bytes) -> ETag | None:
        """Return the ETag of the object if it is what an earlier try wrote."""
        found = await self.head(key)
        if found is None or found.size_bytes != len(data) or await self.get(key) != data:
            return None
        return found.etag

    async def _retry(self, call: Callable[[], Awaitable[T]]) -> T:
        failures = 0
        while True:
            try:
                return await call()
            except UnavailableError as error:
                failures += 1
                await self._wait_or_raise(error, failures)

    async def _retry_unapplied(self, call: Callable[[], Awaitable[T]]) -> T:
        failures = 0
        while True:
            try:
                return await call()
            except UnavailableError as error:
                if error.kind is ErrorKind.OUTCOME_UNKNOWN:
                    raise
                failures += 1
                await self._wait_or_raise(error, failures)

    async def _wait_or_raise(self, error: UnavailableError, failures: int) -> None:
        # A full disk does not get emptier in two seconds.
        if failures >= self._attempts_max or error.kind is ErrorKind.DISK_FULL:
            raise error
        await self._clock.sleep(STORE_BACKOFF_SECONDS * 2 ** (failures - 1) * self._ids.jitter())


def _rest(byte_range: ByteRange | None, done_bytes: int) -> ByteRange | None:
    if not done_bytes:
        return byte_range
    start, end = (byte_range.start, byte_range.end) if byte_range else (0, None)
    return ByteRange(start + done_bytes, end)


def _as_unknown(error: UnavailableError) -> UnavailableError:
    """An earlier try may have been applied, whatever the last one says."""
    if error.kind is ErrorKind.OUTCOME_UNKNOWN:
        return error
    return UnavailableError(ErrorKind.OUTCOME_UNKNOWN, str(error))
