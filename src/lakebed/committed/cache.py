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
from lakebed.limits import CACHE_BYTES_DEFAULT, OPEN_RANGES_BYTES_MAX

Fetch = Callable[[], Awaitable[pa.Table]]


class RangeCache:
    """Tables by name; a name starts with the hash of its table's rows."""

    def __init__(
        self,
        folder: Path | None,
        *,
        workers: Workers,
        bytes_max: int = CACHE_BYTES_DEFAULT,
        open_bytes_max: int = OPEN_RANGES_BYTES_MAX,
        fills: bool = True,
    ) -> None:
        """With `fills` off, the folder is only read: by who reads most things once, and shares a disk with others."""
        self._folder = CacheFolder(folder, bytes_max=bytes_max) if folder is not None else None
        self._workers = workers
        self._fills = fills
        self._open: OrderedDict[str, OpenRange] = OrderedDict()
        self._open_bytes = 0
        self._open_bytes_max = open_bytes_max if folder is not None else bytes_max
        self._loading: dict[str, asyncio.Task[OpenRange]] = {}

    def peek(self, name: str) -> OpenRange | None:
        """Return the table if it is open already: the path of a hot read, which must not wait."""
        opened = self._open.get(name)
        if opened is not None:
            self._open.move_to_end(name)
        return opened

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
            self._keep_open(name, OpenRange(table))

    def keep(self, name: str, table: pa.Table) -> None:
        """Keep a small table in memory only: its writer has it at hand, and a file would cost more than a fetch."""
        self._keep_open(name, OpenRange(table))

    async def remember(self, name: str, make: Fetch) -> OpenRange:
        """Return the table that `make` computes, kept in memory like open ranges and never in the folder.

        The name must tell everything that it is made from, and needs no hash.
        """
        opened = self.peek(name)
        if opened is None:
            opened = OpenRange(await make())
            self._keep_open(name, opened)
        return opened

    async def drop(self, name: str) -> None:
        """Forget a table: the next read fetches it again."""
        self._close(name)
        if self._folder is not None:
            await self._workers.run(self._folder.remove, name)

    async def _load(self, name: str, fetch: Fetch) -> OpenRange:
        table = None
        if self._folder is not None:
            table = await self._workers.run(self._folder.read, name)
        if table is None:
            table = await fetch()
            if self._folder is not None and self._fills:
                table = await self._workers.run(_exchange, self._folder, name, table)
        opened = OpenRange(table)
        self._keep_open(name, opened)
        return opened

    def _loaded(self, name: str, task: asyncio.Task[OpenRange]) -> None:
        del self._loading[name]
        if not task.cancelled():
            # Looked at even if every reader has given up, or asyncio would complain.
            task.exception()

    def _keep_open(self, name: str, opened: OpenRange) -> None:
        self._close(name)
        self._open[name] = opened
        self._open_bytes += opened.size_bytes
        while self._open_bytes > self._open_bytes_max and len(self._open) > 1:
            self._close(next(iter(self._open)))

    def _close(self, name: str) -> None:
        opened = self._open.pop(name, None)
        if opened is not None:
            self._open_bytes -= opened.size_bytes


def _exchange(folder: CacheFolder, name: str, table: pa.Table) -> pa.Table:
    """Return the mapped copy of a table that was just fetched: its pages are shared, the table's are not."""
    mapped = folder.read(name) if folder.write(name, table) else None
    return table if mapped is None else mapped
