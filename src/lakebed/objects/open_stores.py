"""`OpenStores`: the one owner of a process's open object stores.

A local store holds up to 32 descriptors, an S3 store keeps connections. So the
stores that are open are an LRU: beyond `open_max` the one that was unused for the
longest time is closed, one that nobody used for `idle_seconds` is closed, and the
store of a deleted repository is closed at once.

Callers get a `LeasedObjects`, which holds nothing and may be kept for ever. Each of its
calls leases the open store of its place and opens it again if it was closed. A lease costs two numbers,
since calls to local files take microseconds: when stores were used, and whether one
must go, is looked at when another is opened and twice in `idle_seconds`.
A leased store is never closed, so closing cannot hit a call in flight. If more
stores are leased than `open_max`, the bound is exceeded until those calls end:
a call that waited for a place while it holds another lease would be a deadlock.

A place has at most one open store: its next opening waits until the last closing
has ended.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import aclosing, suppress
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


class _Lease:
    """An open store, which is not closed within `with`."""

    __slots__ = ("calls", "idle_since", "is_forgotten", "last_use", "place", "seen_use", "store", "stores")

    def __init__(self, stores: "OpenStores", place: str, store: ObjectStore, *, now: float) -> None:
        self.stores = stores
        self.place = place
        self.store = store
        self.calls = 0
        self.is_forgotten = False
        self.last_use = stores.uses
        """The number of the last call that ended, among those of all stores."""
        self.seen_use = stores.uses
        self.idle_since = now
        """When `last_use` was seen to be `seen_use`."""

    def __enter__(self) -> ObjectStore:
        self.calls += 1
        return self.store

    def __exit__(self, *raised: object) -> None:
        self.calls -= 1
        stores = self.stores
        stores.uses = self.last_use = stores.uses + 1
        if stores.has_surplus:
            stores.give_back(self)


def _last_use(opened: _Lease) -> int:
    return opened.last_use


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
        self.leases: dict[str, _Lease] = {}
        """The open stores by place."""
        self._closing: dict[str, asyncio.Task[None]] = {}
        self._closed = False
        self.uses = 0
        """How many calls have ended."""
        self.has_surplus = False
        """Whether a store must be closed as soon as no call leases it."""
        # Places are resolved on disk: the handles of the namespaces used last are kept.
        self.handle = lru_cache(maxsize=STORE_HANDLES_MAX)(self._new_handle)
        """As `at`."""

    @property
    def count(self) -> int:
        """How many stores are open or being closed."""
        return len(self.leases) + len(self._closing)

    async def at(self, namespace: str) -> ObjectStore:
        """Return the store of a namespace, to keep as long as the caller likes; nothing is opened yet.

        Raises:
            InvalidInputError: `INVALID_NAMESPACE`, or what else `place_of` says.
        """
        return self.handle(namespace)

    def forget(self, namespace: str) -> None:
        """Close the store of a repository that was deleted, as soon as no call leases it."""
        place = None
        with suppress(LakebedError):  # A place that the configuration no longer admits has no open store.
            place = self._place_of(namespace)
        opened = self.leases.get(place) if place is not None else None
        if opened is not None:
            opened.is_forgotten = self.has_surplus = True
            self.give_back(opened)

    async def run(self) -> None:
        """Close idle stores, for ever."""
        while True:
            await self._clock.sleep(self._idle_seconds / 2)
            now = self._clock.monotonic()
            for opened in self._unused():
                if opened.seen_use != opened.last_use:
                    opened.seen_use, opened.idle_since = opened.last_use, now
                elif opened.idle_since <= now - self._idle_seconds:
                    self._close(opened)

    async def close(self) -> None:
        """Close all stores. Handles then refuse their calls."""
        self._closed = True
        for opened in list(self.leases.values()):
            self._close(opened)
        while self._closing:
            await asyncio.wait(self._closing.values())

    async def lease(self, place: str) -> _Lease:
        """Return the open store at `place`, to be entered at once."""
        while (opened := self.leases.get(place)) is None:
            waiting = [self._closing[place]] if place in self._closing else self._make_room()
            if waiting:
                await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            else:
                self._open_at(place)
        return opened

    def give_back(self, opened: _Lease) -> None:
        """Close a store that must go, unless a call leases it."""
        is_surplus = opened.is_forgotten or len(self.leases) > self._open_max
        if is_surplus and not opened.calls and self.leases.get(opened.place) is opened:
            self._close(opened)

    def capabilities(self, place: str) -> Capabilities:
        """Return what the store at `place` can do."""
        return (self.leases.get(place) or self._open_at(place)).store.capabilities

    def _new_handle(self, namespace: str) -> "LeasedObjects":
        return LeasedObjects(self, self._place_of(namespace))

    def _open_at(self, place: str) -> _Lease:
        if self._closed:
            raise UnavailableError(ErrorKind.STORE_UNAVAILABLE, "the server is stopping: try again")
        opened = self.leases[place] = _Lease(
            self, place, self._open_place(place), now=self._clock.monotonic()
        )
        self._look_for_surplus()
        return opened

    def _make_room(self) -> Sequence["asyncio.Task[None]"]:
        """Begin to close unused stores, oldest first, until one more fits; return what must end before it does."""
        if self.count < self._open_max:
            return ()
        for opened in self._unused():
            if len(self.leases) < self._open_max:
                break
            self._close(opened)
        return tuple(self._closing.values())

    def _unused(self) -> list[_Lease]:
        """Return the stores that no call leases, the one that was used last at the end."""
        return sorted([each for each in self.leases.values() if not each.calls], key=_last_use)

    def _close(self, opened: _Lease) -> None:
        del self.leases[opened.place]
        self._closing[opened.place] = asyncio.create_task(self._end(opened))
        self._look_for_surplus()

    def _look_for_surplus(self) -> None:
        self.has_surplus = len(self.leases) > self._open_max or any(
            each.is_forgotten for each in self.leases.values()
        )

    async def _end(self, opened: _Lease) -> None:
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
        self._leases = stores.leases
        self._place = place

    @property
    def capabilities(self) -> Capabilities:
        return self._stores.capabilities(self._place)

    async def put(self, key: str, data: bytes, *, when: PutWhen = PutMode.CREATE) -> ETag:
        with self._leases.get(self._place) or await self._stores.lease(self._place) as store:
            return await store.put(key, data, when=when)

    async def put_stream(
        self, key: str, chunks: AsyncIterator[bytes], *, when: PutWhen = PutMode.CREATE
    ) -> ETag:
        with self._leases.get(self._place) or await self._stores.lease(self._place) as store:
            return await store.put_stream(key, chunks, when=when)

    async def get(self, key: str, *, byte_range: ByteRange | None = None) -> bytes:
        with self._leases.get(self._place) or await self._stores.lease(self._place) as store:
            return await store.get(key, byte_range=byte_range)

    def stream(self, key: str, *, byte_range: ByteRange | None = None) -> AsyncIterator[bytes]:
        return self._each(lambda store: store.stream(key, byte_range=byte_range))

    async def head(self, key: str) -> ObjectInfo | None:
        with self._leases.get(self._place) or await self._stores.lease(self._place) as store:
            return await store.head(key)

    def list(
        self, prefix: str = "", *, start_after: str = "", page_items_max: int = 1000
    ) -> AsyncIterator[Sequence[ObjectInfo]]:
        return self._each(
            lambda store: store.list(prefix, start_after=start_after, page_items_max=page_items_max)
        )

    async def delete(self, keys: Sequence[str]) -> None:
        with self._leases.get(self._place) or await self._stores.lease(self._place) as store:
            await store.delete(keys)

    async def copy(self, source: str, target: str) -> ETag:
        with self._leases.get(self._place) or await self._stores.lease(self._place) as store:
            return await store.copy(source, target)

    async def sign(
        self, method: str, key: str, *, seconds: int, answer: Mapping[str, str] | None = None
    ) -> str:
        with self._leases.get(self._place) or await self._stores.lease(self._place) as store:
            return await store.sign(method, key, seconds=seconds, answer=answer)

    async def sign_parts(
        self, key: str, upload: str, numbers: Sequence[int], *, seconds: int
    ) -> Sequence[str]:
        with self._leases.get(self._place) or await self._stores.lease(self._place) as store:
            return await store.sign_parts(key, upload, numbers, seconds=seconds)

    async def create_upload(self, key: str) -> str:
        with self._leases.get(self._place) or await self._stores.lease(self._place) as store:
            return await store.create_upload(key)

    async def put_part(self, key: str, upload: str, number: int, data: bytes) -> Part:
        with self._leases.get(self._place) or await self._stores.lease(self._place) as store:
            return await store.put_part(key, upload, number, data)

    async def put_part_stream(
        self, key: str, upload: str, number: int, chunks: AsyncIterator[bytes], *, size_bytes: int
    ) -> Part:
        with self._leases.get(self._place) or await self._stores.lease(self._place) as store:
            return await store.put_part_stream(key, upload, number, chunks, size_bytes=size_bytes)

    async def copy_part(
        self, key: str, upload: str, number: int, source: str, *, byte_range: ByteRange | None = None
    ) -> Part:
        with self._leases.get(self._place) or await self._stores.lease(self._place) as store:
            return await store.copy_part(key, upload, number, source, byte_range=byte_range)

    async def complete_upload(self, key: str, upload: str, parts: Sequence[Part]) -> ETag:
        with self._leases.get(self._place) or await self._stores.lease(self._place) as store:
            return await store.complete_upload(key, upload, parts)

    async def abort_upload(self, key: str, upload: str) -> None:
        with self._leases.get(self._place) or await self._stores.lease(self._place) as store:
            await store.abort_upload(key, upload)

    def list_uploads(self) -> AsyncIterator[Sequence[OpenUpload]]:
        return self._each(lambda store: store.list_uploads())

    async def remove_if_empty(self) -> bool:
        opened = await self._stores.lease(self._place)
        with opened as store:
            # Another call of this process would lose its files.
            return opened.calls == 1 and await store.remove_if_empty()

    async def close(self) -> None:
        """Nothing: `OpenStores` closes."""

    async def _each(self, call: Callable[[ObjectStore], AsyncIterator[T]]) -> AsyncIterator[T]:
        with self._leases.get(self._place) or await self._stores.lease(self._place) as store:
            # Every driver's iterator is a generator: one that is left early closes its file here, not some day.
            async with aclosing(cast("AsyncGenerator[T, None]", call(store))) as each:
                async for item in each:
                    yield item
