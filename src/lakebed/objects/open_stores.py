"""`OpenStores`: the one owner of a process's open object stores.

A local store holds up to 32 descriptors, an S3 store keeps connections. So the
stores that are open are an LRU: beyond `open_max` the one that was unused for the
longest time is closed, one that nobody used for `idle_seconds` is closed, and the
store of a deleted repository is closed at once.

Callers get a `LeasedObjects`, which holds nothing and may be kept for ever. Each of
its calls leases the open store of its place and opens it again if it was closed.
A leased store is never closed, so closing cannot hit a call in flight. If more
stores are leased than `open_max`, the bound is exceeded until those calls end:
a call that waited for a place while it holds another lease would be a deadlock.

A place has at most one open store: its next opening waits until the last closing
has ended.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeVar, cast

from lakebed.env.clock import Clock
from lakebed.errors import ErrorKind, LakebedError, UnavailableError
from lakebed.limits import STORE_HANDLES_MAX, STORE_IDLE_SECONDS, STORES_OPEN_MAX
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
from lakebed.telemetry.log import get_logger

T = TypeVar("T")

log = get_logger(__name__)


@dataclass(slots=True, eq=False)
class _Open:
    """An open store, how many calls lease it, and since when no call has."""

    place: str
    store: ObjectStore
    calls: int = 0
    idle_since: float = 0.0
    is_forgotten: bool = False


class OpenStores:
    """The open stores of one process, on one event loop."""

    def __init__(
        self,
        open_place: Callable[[str], ObjectStore],
        *,
        clock: Clock,
        place_of: Callable[[str], str] = str,
        open_max: int = STORES_OPEN_MAX,
        idle_seconds: float = STORE_IDLE_SECONDS,
    ) -> None:
        """`place_of` returns the one spelling of a namespace; `open_place` opens the store there."""
        self._open_place = open_place
        self._clock = clock
        self._place_of = place_of
        self._open_max = open_max
        self._idle_seconds = idle_seconds
        self._open: dict[str, _Open] = {}
        """By place, the one used last at the end."""
        self._closing: dict[str, asyncio.Task[None]] = {}
        self._closed = False
        # Places are resolved on disk: the handles of the namespaces used last are kept.
        self._handle = lru_cache(maxsize=STORE_HANDLES_MAX)(self._new_handle)

    @property
    def count(self) -> int:
        """How many stores are open or being closed."""
        return len(self._open) + len(self._closing)

    async def at(self, namespace: str) -> ObjectStore:
        """Return the store of a namespace, to keep as long as the caller likes; nothing is opened yet.

        Raises:
            InvalidInputError: `INVALID_NAMESPACE`, or what else `place_of` says.
        """
        return self._handle(namespace)

    def forget(self, namespace: str) -> None:
        """Close the store of a repository that was deleted, as soon as no call leases it."""
        place = None
        with suppress(LakebedError):  # A place that the configuration no longer admits has no open store.
            place = self._place_of(namespace)
        opened = self._open.get(place) if place is not None else None
        if opened is not None:
            opened.is_forgotten = True
            if not opened.calls:
                self._close(opened)

    async def run(self) -> None:
        """Close idle stores, for ever."""
        while True:
            await self._clock.sleep(self._idle_seconds / 2)
            oldest = self._clock.monotonic() - self._idle_seconds
            for opened in [each for each in self._open.values() if not each.calls]:
                if opened.idle_since <= oldest:
                    self._close(opened)

    async def close(self) -> None:
        """Close all stores. Handles then refuse their calls."""
        self._closed = True
        for opened in list(self._open.values()):
            self._close(opened)
        while self._closing:
            await asyncio.wait(self._closing.values())

    def lease_open(self, place: str) -> _Open | None:
        """Return the store at `place` if it is open, as `lease` does: most calls need not wait."""
        opened = self._open.pop(place, None)
        if opened is not None:
            self._open[place] = opened
            opened.calls += 1
        return opened

    async def lease(self, place: str) -> _Open:
        """Return the open store at `place`, which stays open until `give_back`."""
        while (opened := self.lease_open(place)) is None:
            waiting = [self._closing[place]] if place in self._closing else self._make_room()
            if waiting:
                await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            else:
                self._open[place] = self._opened(place)
        return opened

    def give_back(self, opened: _Open) -> None:
        """End a lease."""
        opened.calls -= 1
        if not opened.calls:
            opened.idle_since = self._clock.monotonic()
            is_surplus = opened.is_forgotten or len(self._open) > self._open_max
            if is_surplus and self._open.get(opened.place) is opened:
                self._close(opened)

    def capabilities(self, place: str) -> Capabilities:
        """Return what the store at `place` can do."""
        opened = self._open.get(place)
        if opened is None:
            opened = self._open[place] = self._opened(place)
        return opened.store.capabilities

    def _new_handle(self, namespace: str) -> "LeasedObjects":
        return LeasedObjects(self, self._place_of(namespace))

    def _opened(self, place: str) -> _Open:
        if self._closed:
            raise UnavailableError(ErrorKind.STORE_UNAVAILABLE, "the server is stopping: try again")
        return _Open(place, self._open_place(place), idle_since=self._clock.monotonic())

    def _make_room(self) -> Sequence["asyncio.Task[None]"]:
        """Begin to close unused stores, oldest first, until one more fits; return what must end before it does."""
        if self.count < self._open_max:
            return ()
        for opened in [each for each in self._open.values() if not each.calls]:
            if len(self._open) < self._open_max:
                break
            self._close(opened)
        return tuple(self._closing.values())

    def _close(self, opened: _Open) -> None:
        del self._open[opened.place]
        self._closing[opened.place] = asyncio.create_task(self._end(opened))

    async def _end(self, opened: _Open) -> None:
        try:
            await opened.store.close()
        except LakebedError as error:
            log.warning("store_not_closed", place=opened.place, kind=error.kind, error=str(error))
        finally:
            del self._closing[opened.place]


class LeasedObjects:
    """An `ObjectStore` that leases the open store of its place for each call."""

    def __init__(self, stores: OpenStores, place: str) -> None:
        self._stores = stores
        self._place = place

    @property
    def capabilities(self) -> Capabilities:
        return self._stores.capabilities(self._place)

    async def put(self, key: str, data: bytes, *, when: PutWhen = PutMode.CREATE) -> ETag:
        return await self._call(lambda store: store.put(key, data, when=when))

    async def put_stream(
        self, key: str, chunks: AsyncIterator[bytes], *, when: PutWhen = PutMode.CREATE
    ) -> ETag:
        return await self._call(lambda store: store.put_stream(key, chunks, when=when))

    async def get(self, key: str, *, byte_range: ByteRange | None = None) -> bytes:
        return await self._call(lambda store: store.get(key, byte_range=byte_range))

    def stream(self, key: str, *, byte_range: ByteRange | None = None) -> AsyncIterator[bytes]:
        return self._each(lambda store: store.stream(key, byte_range=byte_range))

    async def head(self, key: str) -> ObjectInfo | None:
        return await self._call(lambda store: store.head(key))

    def list(
        self, prefix: str = "", *, start_after: str = "", page_items_max: int = 1000
    ) -> AsyncIterator[Sequence[ObjectInfo]]:
        return self._each(
            lambda store: store.list(prefix, start_after=start_after, page_items_max=page_items_max)
        )

    async def delete(self, keys: Sequence[str]) -> None:
        await self._call(lambda store: store.delete(keys))

    async def copy(self, source: str, target: str) -> ETag:
        return await self._call(lambda store: store.copy(source, target))

    async def sign(self, method: str, key: str, *, seconds: int) -> str:
        return await self._call(lambda store: store.sign(method, key, seconds=seconds))

    async def sign_parts(
        self, key: str, upload: str, numbers: Sequence[int], *, seconds: int
    ) -> Sequence[str]:
        return await self._call(lambda store: store.sign_parts(key, upload, numbers, seconds=seconds))

    async def create_upload(self, key: str) -> str:
        return await self._call(lambda store: store.create_upload(key))

    async def put_part(self, key: str, upload: str, number: int, data: bytes) -> Part:
        return await self._call(lambda store: store.put_part(key, upload, number, data))

    async def put_part_stream(
        self, key: str, upload: str, number: int, chunks: AsyncIterator[bytes], *, size_bytes: int
    ) -> Part:
        return await self._call(
            lambda store: store.put_part_stream(key, upload, number, chunks, size_bytes=size_bytes)
        )

    async def copy_part(
        self, key: str, upload: str, number: int, source: str, *, byte_range: ByteRange | None = None
    ) -> Part:
        return await self._call(
            lambda store: store.copy_part(key, upload, number, source, byte_range=byte_range)
        )

    async def complete_upload(self, key: str, upload: str, parts: Sequence[Part]) -> ETag:
        return await self._call(lambda store: store.complete_upload(key, upload, parts))

    async def abort_upload(self, key: str, upload: str) -> None:
        await self._call(lambda store: store.abort_upload(key, upload))

    def list_uploads(self) -> AsyncIterator[Sequence[OpenUpload]]:
        return self._each(lambda store: store.list_uploads())

    async def remove_if_empty(self) -> bool:
        opened = await self._stores.lease(self._place)
        try:
            # Another call of this process would lose its files.
            return opened.calls == 1 and await opened.store.remove_if_empty()
        finally:
            self._stores.give_back(opened)

    async def close(self) -> None:
        """Nothing: `OpenStores` closes."""

    async def _call(self, call: Callable[[ObjectStore], Awaitable[T]]) -> T:
        opened = self._stores.lease_open(self._place) or await self._stores.lease(self._place)
        try:
            return await call(opened.store)
        finally:
            self._stores.give_back(opened)

    async def _each(self, call: Callable[[ObjectStore], AsyncIterator[T]]) -> AsyncIterator[T]:
        opened = self._stores.lease_open(self._place) or await self._stores.lease(self._place)
        try:
            items = call(opened.store)
            # Every driver's iterator is a generator: one that is left early closes its file here, not some day.
            async with aclosing(cast("AsyncGenerator[T, None]", items)) as each:
                async for item in each:
                    yield item
        finally:
            self._stores.give_back(opened)
