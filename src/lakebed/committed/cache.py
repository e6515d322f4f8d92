"""`RangeCache`: every table is fetched once, kept in the local folder, and mapped.

One cache serves all repositories of a process; the folder below it serves all
processes of a machine. Simultaneous reads of one name share a fetch. Without a
folder, tables stay in memory: for tests and the simulation.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from pathlib import Path

import pyarrow as pa

from lakebed.committed.folder import CacheFolder
from lakebed.committed.opened import OpenRange
from lakebed.env.work import Workers
from lakebed.limits import CACHE_BYTES_DEFAULT, HELD_RANGES_BYTES_MAX, MAPPED_RANGES_BYTES_MAX

Fetch = Callable[[], Awaitable[pa.Table]]


class RangeCache:
    """Tables by name; a name starts with the hash of its table's rows."""

    def __init__(
        self,
        folder: Path | None,
        *,
        workers: Workers,
        bytes_max: int = CACHE_BYTES_DEFAULT,
        mapped_bytes_max: int = MAPPED_RANGES_BYTES_MAX,
        held_bytes_max: int = HELD_RANGES_BYTES_MAX,
        fills: bool = True,
    ) -> None:
        """With `fills` off, the folder is only read: by who reads most things once, and shares a disk with others."""
        self._folder = CacheFolder(folder, bytes_max=bytes_max) if folder is not None else None
        self._workers = workers
        self._fills = fills
        self._mapped = _Shelf(mapped_bytes_max)
        self._held = _Shelf(held_bytes_max if folder is not None else bytes_max)
        self._loading: dict[str, asyncio.Task[OpenRange]] = {}

    def peek(self, name: str) -> OpenRange | None:
        """Return the table if it is open already: the path of a hot read, which must not wait."""
        return self._mapped.get(name) or self._held.get(name)

    async def get(self, name: str, fetch: Fetch) -> OpenRange:
        """Return the table, from memory, from the folder, or by `fetch`, whose errors are raised."""
        opened = self.peek(name)
        if opened is not None:
            return opened
        task = self._loading.get(name)
        if task is None:
            task = asyncio.ensure_future(self._load(name, fetch))
            self._loading[name] = task
            task.add_done_callback(lambda done: self._loaded(name, done))
        # One reader that gives up must not take the fetch from the others.
        return await asyncio.shield(task)

    async def put(self, name: str, table: pa.Table) -> None:
        """Keep a table that its writer has at hand, so that nobody has to fetch it."""
        if not self._fills:
            return
        if self._folder is None or not await self._workers.run(self._folder.write, name, table):
            self._held.put(name, OpenRange(table))

    def keep(self, name: str, table: pa.Table) -> None:
        """Keep a small table in memory only: its writer has it at hand, and a file would cost more than a fetch."""
        self._held.put(name, OpenRange(table))

    async def remember(self, name: str, make: Fetch) -> OpenRange:
        """Return the table that `make` computes, kept in memory like open ranges and never in the folder.

        The name must tell everything that it is made from, and needs no hash.
        """
        opened = self.peek(name)
        if opened is None:
            opened = OpenRange(await make())
            self._held.put(name, opened)
        return opened

    def let_go(self) -> None:
        """Give memory back that will not be read again: if the folder is only read, all that is held."""
        if not self._fills:
            self._held.clear()
            pa.default_memory_pool().release_unused()

    async def drop(self, name: str) -> None:
        """Forget a table: the next read fetches it again."""
        self._mapped.take_off(name)
        self._held.take_off(name)
        if self._folder is not None:
            await self._workers.run(self._folder.remove, name)

    async def _load(self, name: str, fetch: Fetch) -> OpenRange:
        mapped = None
        if self._folder is not None:
            mapped = await self._workers.run(self._folder.read, name)
        if mapped is None:
            table = await fetch()
            if self._folder is not None and self._fills:
                mapped = await self._workers.run(_exchange, self._folder, name, table)
            if mapped is None:
                opened = OpenRange(table)
                self._held.put(name, opened)
                return opened
        opened = OpenRange(mapped)
        self._mapped.put(name, opened)
        return opened

    def _loaded(self, name: str, task: asyncio.Task[OpenRange]) -> None:
        del self._loading[name]
        if not task.cancelled():
            # Looked at even if every reader has given up, or asyncio would complain.
            task.exception()


class _Shelf:
    """Open tables up to so many bytes; the one that was not used for longest goes first."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._bytes = 0
        self._tables: OrderedDict[str, OpenRange] = OrderedDict()

    def get(self, name: str) -> OpenRange | None:
        opened = self._tables.get(name)
        if opened is not None:
            self._tables.move_to_end(name)
        return opened

    def put(self, name: str, opened: OpenRange) -> None:
        self.take_off(name)
        self._tables[name] = opened
        self._bytes += opened.size_bytes
        while self._bytes > self._bytes_max and len(self._tables) > 1:
            self.take_off(next(iter(self._tables)))

    def clear(self) -> None:
        self._tables.clear()
        self._bytes = 0

    def take_off(self, name: str) -> None:
        opened = self._tables.pop(name, None)
        if opened is not None:
            self._bytes -= opened.size_bytes


def _exchange(folder: CacheFolder, name: str, table: pa.Table) -> pa.Table | None:
    """Return the mapped copy of a table that was just fetched, if it could be kept: its pages are shared, the table's are not."""
    return folder.read(name) if folder.write(name, table) else None
