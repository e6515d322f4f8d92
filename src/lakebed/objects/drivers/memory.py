"""The port in a dict: for tests and the simulation, and the shortest reading of the contract.

Two stores over one `MemoryBucket` are two processes over one bucket: uploads
begun by one can be completed by the other.
"""

from bisect import bisect_left, bisect_right
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field

from lakebed.env.clock import Clock, Instant, SystemClock
from lakebed.limits import STREAM_CHUNK_BYTES
from lakebed.objects.checks import (
    cannot_sign,
    check_key,
    check_part_number,
    check_parts,
    check_range,
    condition_failed,
    cut_range,
    key_exists,
    key_missing,
    part_missing,
    upload_missing,
    wrong_size,
)
from lakebed.objects.port import (
    ByteRange,
    Capabilities,
    ETag,
    IfMatch,
    ObjectInfo,
    OpenUpload,
    Part,
    PutMode,
    PutWhen,
)


@dataclass(frozen=True, slots=True)
class _Object:
    data: bytes
    etag: ETag
    mtime: Instant


@dataclass(slots=True)
class _Upload:
    key: str
    parts: dict[int, _Object] = field(default_factory=dict)


@dataclass(slots=True)
class MemoryBucket:
    """What a memory store holds, apart from the store, so that it can be reopened."""

    objects: dict[str, _Object] = field(default_factory=dict)
    uploads: dict[str, _Upload] = field(default_factory=dict)
    counter: int = 0
    ordered: list[str] | None = None
    """The keys in order, or None since a key came or went."""

    def next_number(self) -> int:
        self.counter += 1
        return self.counter

    def keys_in_order(self) -> list[str]:
        if self.ordered is None:
            # Text order is code point order, which is the order of the UTF-8 bytes.
            self.ordered = sorted(self.objects)
        return self.ordered


class MemoryObjects:
    """An `ObjectStore` that forgets everything when its bucket goes."""

    def __init__(self, *, clock: Clock | None = None, bucket: MemoryBucket | None = None) -> None:
        self._clock = clock or SystemClock()
        self._bucket = bucket or MemoryBucket()
        self.capabilities = Capabilities(if_match=True, sign=False, multipart=True)

    async def put(self, key: str, data: bytes, *, when: PutWhen = PutMode.CREATE) -> ETag:
        return self._put(key, bytes(data), when)

    async def put_stream(
        self, key: str, chunks: AsyncIterator[bytes], *, when: PutWhen = PutMode.CREATE
    ) -> ETag:
        check_key(key)
        data = b"".join([chunk async for chunk in chunks])
        return self._put(key, data, when)

    async def get(self, key: str, *, byte_range: ByteRange | None = None) -> bytes:
        return self._get(key, byte_range)

    async def stream(self, key: str, *, byte_range: ByteRange | None = None) -> AsyncIterator[bytes]:
        data = self._get(key, byte_range)
        for start in range(0, len(data), STREAM_CHUNK_BYTES):
            yield data[start : start + STREAM_CHUNK_BYTES]

    async def head(self, key: str) -> ObjectInfo | None:
        check_key(key)
        found = self._bucket.objects.get(key)
        return None if found is None else _info(key, found)

    async def list(
        self, prefix: str = "", *, start_after: str = "", page_items_max: int = 1000
    ) -> AsyncIterator[Sequence[ObjectInfo]]:
        while True:
            ordered = self._bucket.keys_in_order()
            low = bisect_left(ordered, prefix) if start_after < prefix else bisect_right(ordered, start_after)
            keys = [key for key in ordered[low : low + page_items_max] if key.startswith(prefix)]
            if not keys:
                return
            yield [_info(key, self._bucket.objects[key]) for key in keys]
            start_after = keys[-1]

    async def delete(self, keys: Sequence[str]) -> None:
        for key in keys:
            check_key(key)
        for key in keys:
            self._bucket.objects.pop(key, None)
        self._bucket.ordered = None

    async def copy(self, source: str, target: str) -> ETag:
        return self._put(target, self._get(source, None), PutMode.OVERWRITE)

    async def sign(  # the port's shape
        self,
        method: str,  # noqa: ARG002
        key: str,  # noqa: ARG002
        *,
        seconds: int,  # noqa: ARG002
        answer: Mapping[str, str] | None = None,  # noqa: ARG002
    ) -> str:
        raise cannot_sign("mem://")

    async def sign_parts(
        self,
        key: str,  # noqa: ARG002  the port's shape
        upload: str,  # noqa: ARG002
        numbers: Sequence[int],  # noqa: ARG002
        *,
        seconds: int,  # noqa: ARG002
    ) -> Sequence[str]:
        raise cannot_sign("mem://")

    async def create_upload(self, key: str) -> str:
        check_key(key)
        upload = f"upload-{self._bucket.next_number()}"
        self._bucket.uploads[upload] = _Upload(key)
        return upload

    async def put_part(self, key: str, upload: str, number: int, data: bytes) -> Part:
        check_part_number(number)
        part = self._new_object(bytes(data))
        self._upload(key, upload).parts[number] = part
        return Part(number, part.etag, len(part.data))

    async def put_part_stream(
        self, key: str, upload: str, number: int, chunks: AsyncIterator[bytes], *, size_bytes: int
    ) -> Part:
        data = b"".join([chunk async for chunk in chunks])
        if len(data) != size_bytes:
            raise wrong_size(number, size_bytes)
        return await self.put_part(key, upload, number, data)

    async def copy_part(
        self, key: str, upload: str, number: int, source: str, *, byte_range: ByteRange | None = None
    ) -> Part:
        return await self.put_part(key, upload, number, await self.get(source, byte_range=byte_range))

    async def complete_upload(self, key: str, upload: str, parts: Sequence[Part]) -> ETag:
        check_parts(parts)
        stored = self._upload(key, upload).parts
        for part in parts:
            if part.number not in stored or stored[part.number].etag != part.etag:
                raise part_missing(part.number)
        data = b"".join(stored[part.number].data for part in parts)
        etag = self._put(key, data, PutMode.OVERWRITE)
        del self._bucket.uploads[upload]
        return etag

    async def abort_upload(self, key: str, upload: str) -> None:
        found = self._bucket.uploads.get(upload)
        if found is not None and found.key == key:
            del self._bucket.uploads[upload]

    async def list_uploads(self) -> AsyncIterator[Sequence[OpenUpload]]:
        found = [OpenUpload(upload.key, name) for name, upload in self._bucket.uploads.items()]
        if found:
            yield found

    async def remove_if_empty(self) -> bool:
        return True

    async def close(self) -> None:
        return None

    def _get(self, key: str, byte_range: ByteRange | None) -> bytes:
        check_key(key)
        check_range(byte_range)
        found = self._bucket.objects.get(key)
        if found is None:
            raise key_missing(key)
        start, end = cut_range(byte_range, len(found.data))
        return found.data[start:end]

    def _put(self, key: str, data: bytes, when: PutWhen) -> ETag:
        check_key(key)
        present = self._bucket.objects.get(key)
        if when is PutMode.CREATE and present is not None:
            raise key_exists(key)
        if isinstance(when, IfMatch) and (present is None or present.etag != when.etag):
            raise condition_failed(key)
        stored = self._new_object(data)
        self._bucket.objects[key] = stored
        if present is None:
            self._bucket.ordered = None
        return stored.etag

    def _new_object(self, data: bytes) -> _Object:
        return _Object(data, ETag(f"m{self._bucket.next_number()}"), self._clock.now())

    def _upload(self, key: str, upload: str) -> _Upload:
        found = self._bucket.uploads.get(upload)
        if found is None or found.key != key:
            raise upload_missing(upload)
        return found


def _info(key: str, stored: _Object) -> ObjectInfo:
    return ObjectInfo(key=key, size_bytes=len(stored.data), mtime=stored.mtime, etag=stored.etag)
