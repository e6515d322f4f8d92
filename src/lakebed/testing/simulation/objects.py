"""`SimObjects`: an object store as one process sees it, across the network."""

from collections.abc import AsyncIterator, Mapping, Sequence

from lakebed.objects.drivers.memory import MemoryObjects
from lakebed.objects.port import (
    ByteRange,
    Capabilities,
    ETag,
    ObjectInfo,
    OpenUpload,
    Part,
    PutMode,
    PutWhen,
)
from lakebed.testing.simulation.database import at_once, first_page
from lakebed.testing.simulation.network import Network
from lakebed.testing.simulation.record_laws import LawBrokenError


class SimObjects:
    """An `ObjectStore`. See `Network` for what may become of a call.

    It says that it has no multipart uploads, so that nobody thinks of using them; whoever does is served.
    """

    def __init__(self, inner: MemoryObjects, network: Network) -> None:
        self._inner = inner
        self._reached = network
        self.is_closed = False
        self.capabilities = Capabilities(if_match=True, sign=False, multipart=False)

    async def put(self, key: str, data: bytes, *, when: PutWhen = PutMode.CREATE) -> ETag:
        return await self._network.call(
            f"put {key}", lambda: at_once(self._inner.put(key, data, when=when)), write=True
        )

    async def put_stream(
        self, key: str, chunks: AsyncIterator[bytes], *, when: PutWhen = PutMode.CREATE
    ) -> ETag:
        return await self.put(key, b"".join([chunk async for chunk in chunks]), when=when)

    async def get(self, key: str, *, byte_range: ByteRange | None = None) -> bytes:
        return await self._network.call(
            f"read {key}", lambda: at_once(self._inner.get(key, byte_range=byte_range)), write=False
        )

    async def stream(self, key: str, *, byte_range: ByteRange | None = None) -> AsyncIterator[bytes]:
        yield await self.get(key, byte_range=byte_range)

    async def head(self, key: str) -> ObjectInfo | None:
        return await self._network.call(f"head {key}", lambda: at_once(self._inner.head(key)), write=False)

    async def list(
        self, prefix: str = "", *, start_after: str = "", page_items_max: int = 1000
    ) -> AsyncIterator[Sequence[ObjectInfo]]:
        while (page := await self._page(prefix, start_after, page_items_max)) is not None:
            yield page
            start_after = page[-1].key

    async def delete(self, keys: Sequence[str]) -> None:
        await self._network.call(
            f"delete {' '.join(keys)}", lambda: at_once(self._inner.delete(keys)), write=True
        )

    async def copy(self, source: str, target: str) -> ETag:
        return await self._network.call(
            f"copy {source} {target}", lambda: at_once(self._inner.copy(source, target)), write=True
        )

    async def sign(
        self, method: str, key: str, *, seconds: int, answer: Mapping[str, str] | None = None
    ) -> str:
        return await self._inner.sign(method, key, seconds=seconds, answer=answer)

    async def sign_parts(
        self, key: str, upload: str, numbers: Sequence[int], *, seconds: int
    ) -> Sequence[str]:
        return await self._inner.sign_parts(key, upload, numbers, seconds=seconds)

    async def create_upload(self, key: str) -> str:
        return await self._network.call(
            f"create-upload {key}", lambda: at_once(self._inner.create_upload(key)), write=True
        )

    async def put_part(self, key: str, upload: str, number: int, data: bytes) -> Part:
        return await self._network.call(
            f"put-part {key}", lambda: at_once(self._inner.put_part(key, upload, number, data)), write=True
        )

    async def put_part_stream(
        self, key: str, upload: str, number: int, chunks: AsyncIterator[bytes], *, size_bytes: int
    ) -> Part:
        data = b"".join([chunk async for chunk in chunks])
        assert len(data) == size_bytes
        return await self.put_part(key, upload, number, data)

    async def copy_part(
        self, key: str, upload: str, number: int, source: str, *, byte_range: ByteRange | None = None
    ) -> Part:
        return await self._network.call(
            f"copy-part {source} {key}",
            lambda: at_once(self._inner.copy_part(key, upload, number, source, byte_range=byte_range)),
            write=True,
        )

    async def complete_upload(self, key: str, upload: str, parts: Sequence[Part]) -> ETag:
        return await self._network.call(
            f"complete-upload {key}",
            lambda: at_once(self._inner.complete_upload(key, upload, parts)),
            write=True,
        )

    async def abort_upload(self, key: str, upload: str) -> None:
        await self._network.call(
            f"abort-upload {key}", lambda: at_once(self._inner.abort_upload(key, upload)), write=True
        )

    async def list_uploads(self) -> AsyncIterator[Sequence[OpenUpload]]:
        page = await self._network.call(
            "list-uploads", lambda: at_once(first_page(self._inner.list_uploads())), write=False
        )
        if page is not None:
            yield page

    async def remove_if_empty(self) -> bool:
        return await self._network.call(
            "remove-if-empty", lambda: at_once(self._inner.remove_if_empty()), write=True
        )

    async def close(self) -> None:
        self.is_closed = True

    @property
    def _network(self) -> Network:
        if self.is_closed:
            raise LawBrokenError("a call met an object store that was closed under it")
        return self._reached

    async def _page(self, prefix: str, start_after: str, page_items_max: int) -> Sequence[ObjectInfo] | None:
        return await self._network.call(
            f"list {prefix}",
            lambda: at_once(
                first_page(self._inner.list(prefix, start_after=start_after, page_items_max=page_items_max))
            ),
            write=False,
        )
