"""Simultaneous `get`s of one record share one round trip, and stay linearizable.

A hot branch record is read by every request. At most one read of a record is on
its way at a time; whoever asks meanwhile waits for the next one, together with
everyone else who asks before that one is sent.

The rule that keeps this linearizable: a caller may only join a read that has not
been sent yet. The answer of one that is already on its way may be older than the
caller's question, and would hide from it a write that it knows of.

For a database across a network. In front of an embedded one it only costs.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence

from lakebed.env.clock import Instant
from lakebed.kv.checks import check_key, check_partition
from lakebed.kv.copying import Place, Record, copyable
from lakebed.kv.port import Capabilities, Expect, Fence, Item, KVStore, Page, Row, Version, VersionFence
from lakebed.limits import SCAN_PAGE_ITEMS

_Lookup = tuple[str, bytes]


class SharedReads:
    """A `KVStore` that asks another one less often."""

    def __init__(self, inner: KVStore) -> None:
        self._inner = inner
        self._unsent: dict[_Lookup, asyncio.Task[Item | None]] = {}
        """Reads that may still be joined."""
        self._sent: dict[_Lookup, asyncio.Task[Item | None]] = {}
        """Reads on their way: only to be waited for."""

    @property
    def capabilities(self) -> Capabilities:
        return self._inner.capabilities

    async def get(self, partition: str, key: bytes) -> Item | None:
        check_partition(partition)
        check_key(key, self.capabilities)
        lookup = (partition, key)
        read = self._unsent.get(lookup)
        if read is None:
            read = self._unsent[lookup] = asyncio.create_task(self._read(lookup, self._sent.get(lookup)))
        # A caller that gives up must not take the others' answer with it.
        return await asyncio.shield(read)

    async def get_many(self, lookups: Sequence[tuple[str, bytes]]) -> list[Item | None]:
        return await self._inner.get_many(lookups)

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
        return await self._inner.swap(partition, key, value, expected=expected, names=names, fence=fence)

    async def set_rows(
        self,
        partition: str,
        rows: Sequence[Row],
        *,
        fence: Fence | None = None,
        not_after: Instant | None = None,
    ) -> None:
        await self._inner.set_rows(partition, rows, fence=fence, not_after=not_after)

    async def remove(self, partition: str, key: bytes, *, expected: Version) -> None:
        await self._inner.remove(partition, key, expected=expected)

    async def delete_rows(self, partition: str, keys: Sequence[bytes]) -> None:
        await self._inner.delete_rows(partition, keys)

    async def drop(self, partition: str, *, first: Sequence[bytes] = ()) -> None:
        await self._inner.drop(partition, first=first)

    def scan(
        self,
        partition: str,
        *,
        start: bytes = b"",
        end: bytes | None = None,
        page_items_max: int = SCAN_PAGE_ITEMS,
    ) -> AsyncIterator[Page]:
        return self._inner.scan(partition, start=start, end=end, page_items_max=page_items_max)

    def records(self, *, after: Place | None = None) -> AsyncIterator[Sequence[Record]]:
        return copyable(self._inner).records(after=after)

    async def load(self, records: Sequence[Record]) -> None:
        await copyable(self._inner).load(records)

    async def last_version(self) -> Version:
        return await copyable(self._inner).last_version()

    async def raise_version(self, least: Version) -> None:
        await copyable(self._inner).raise_version(least)

    async def other_users(self) -> list[str]:
        return await copyable(self._inner).other_users()

    async def now(self) -> Instant:
        return await self._inner.now()

    async def close(self) -> None:
        while self._unsent or self._sent:
            await asyncio.wait([*self._unsent.values(), *self._sent.values()])
        await self._inner.close()

    async def _read(self, lookup: _Lookup, before: "asyncio.Task[Item | None] | None") -> Item | None:
        if before is not None:
            await asyncio.wait([before])
        # From here on nobody joins: whoever asks now asks after this read was sent.
        read = self._sent[lookup] = self._unsent.pop(lookup)
        try:
            return await self._inner.get(*lookup)
        finally:
            if self._sent.get(lookup) is read:
                del self._sent[lookup]
