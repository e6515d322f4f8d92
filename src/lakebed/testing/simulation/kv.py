"""`SimKV`: the database as one process sees it, across the network."""

from collections.abc import AsyncIterator, Sequence

from lakebed.env.clock import Instant
from lakebed.kv.port import Capabilities, Expect, Fence, Item, Page, Row, Version, VersionFence
from lakebed.limits import SCAN_PAGE_ITEMS
from lakebed.testing.simulation.database import Database
from lakebed.testing.simulation.network import Network

# A drop takes several messages, so that a crash or a reader can come between them.
_DROP_STEP_ROWS = 2


class SimKV:
    """A `KVStore`. See `Network` for what may become of a call."""

    def __init__(self, database: Database, network: Network) -> None:
        self._database = database
        self._network = network

    @property
    def capabilities(self) -> Capabilities:
        return self._database.capabilities

    async def get(self, partition: str, key: bytes) -> Item | None:
        found = await self._network.call(
            f"get {partition} {_text(key)}",
            lambda: self._database.get_many([(partition, key)]),
            write=False,
        )
        return found[0]

    async def get_many(self, lookups: Sequence[tuple[str, bytes]]) -> list[Item | None]:
        return await self._network.call(
            f"get_many of {len(lookups)}", lambda: self._database.get_many(lookups), write=False
        )

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
        return await self._network.call(
            f"swap {partition} {_text(key)} {expected}",
            lambda: self._database.swap(partition, key, value, expected=expected, names=names, fence=fence),
            write=True,
        )

    async def set_rows(
        self,
        partition: str,
        rows: Sequence[Row],
        *,
        fence: Fence | None = None,
        not_after: Instant | None = None,
    ) -> None:
        await self._network.call(
            f"set_rows {partition} {' '.join(_text(row.key) for row in rows)}",
            lambda: self._database.set_rows(partition, rows, fence=fence, not_after=not_after),
            write=True,
        )

    async def remove(self, partition: str, key: bytes, *, expected: Version) -> None:
        await self._network.call(
            f"remove {partition} {_text(key)} {expected}",
            lambda: self._database.remove(partition, key, expected=expected),
            write=True,
        )

    async def delete_rows(self, partition: str, keys: Sequence[bytes]) -> None:
        await self._network.call(
            f"delete_rows {partition} {' '.join(map(_text, keys))}",
            lambda: self._database.delete_rows(partition, keys),
            write=True,
        )

    async def drop(self, partition: str, *, first: Sequence[bytes] = ()) -> None:
        if first:
            await self.delete_rows(partition, first)
        while True:
            page = await self._page(partition, b"", None, _DROP_STEP_ROWS)
            if page is None:
                return
            await self.delete_rows(partition, page.keys)

    async def scan(
        self,
        partition: str,
        *,
        start: bytes = b"",
        end: bytes | None = None,
        page_items_max: int = SCAN_PAGE_ITEMS,
    ) -> AsyncIterator[Page]:
        while (page := await self._page(partition, start, end, page_items_max)) is not None:
            yield page
            start = page.keys[-1] + b"\0"

    async def now(self) -> Instant:
        return await self._network.call("now", self._database.now, write=False)

    async def close(self) -> None:
        return None

    async def _page(
        self, partition: str, start: bytes, end: bytes | None, page_items_max: int
    ) -> Page | None:
        return await self._network.call(
            f"scan {partition} {_text(start)}",
            lambda: self._database.page(partition, start=start, end=end, page_items_max=page_items_max),
            write=False,
        )


def _text(key: bytes) -> str:
    return key.decode()
