"""The port on LMDB: the default, for one machine and many processes.

Reads run where they are called: a snapshot costs less than a microsecond, and a
hop to a thread and back a hundred times that. (A scan in a thread would even be
slower: LMDB's binding gives up the interpreter lock at every row.) Small writes
run there too, with group commit; large ones, and those that would have to wait
for another process, go through one thread. Engine time is the process's time.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from urllib.parse import unquote, urlsplit

from lakebed.env.clock import Clock, Instant, SystemClock
from lakebed.errors import ErrorKind, InvalidInputError
from lakebed.kv.checks import (
    check_fence_supported,
    check_key,
    check_keys,
    check_partition,
    check_rows,
    check_value,
)
from lakebed.kv.copying import Place, Record
from lakebed.kv.drivers.lmdb_env import Environment
from lakebed.kv.drivers.lmdb_keys import CHUNK_BYTES, partition_prefix, row_key
from lakebed.kv.drivers.lmdb_records import item_of
from lakebed.kv.drivers.lmdb_scan import read_page
from lakebed.kv.drivers.lmdb_writer import Writer
from lakebed.kv.drivers.lmdb_writes import DeleteRows, DropStep, Load, Remove, Swap, set_rows_request
from lakebed.kv.port import Capabilities, Expect, Fence, Item, Page, Row, Version, VersionFence
from lakebed.limits import (
    COPY_PAGE_BYTES,
    COPY_PAGE_ROWS,
    DROP_STEP_ROWS,
    KV_KEY_BYTES_MAX,
    KV_VALUE_BYTES_MAX,
    LMDB_MAP_BYTES,
    LMDB_SCAN_STEP_BYTES,
    LMDB_SCAN_STEP_ROWS,
    SCAN_PAGE_ITEMS,
)


async def open_lmdb(url: str, *, clock: Clock) -> "LmdbKV":
    """Return the store in the folder that `lmdb:///folder` names, created if it is not there."""
    parts = urlsplit(url)
    folder = Path(unquote(parts.path))
    if parts.netloc or not folder.is_absolute() or folder == Path("/"):
        raise InvalidInputError(
            ErrorKind.INVALID_CONFIG,
            f"{url!r} names no folder: write lmdb:///absolute/folder, with three slashes",
        )
    return LmdbKV(folder, clock=clock)


class LmdbKV:
    """A `KVStore` in a folder. Open it once a process."""

    def __init__(self, folder: Path, *, clock: Clock | None = None, map_bytes: int = LMDB_MAP_BYTES) -> None:
        self._clock = clock or SystemClock()
        self.environment = Environment(folder, clock=self._clock, map_bytes=map_bytes)
        self.writer = Writer(self.environment, clock=self._clock)
        self.writer.start()
        self.capabilities = Capabilities(
            fences=True,
            engine_time=False,
            key_bytes_max=KV_KEY_BYTES_MAX,
            value_bytes_max=KV_VALUE_BYTES_MAX,
            blocking_writes=True,
        )

    async def get(self, partition: str, key: bytes) -> Item | None:
        record = self.environment.get(self._place(partition, key))
        return None if record is None else item_of(key, record)

    async def get_many(self, lookups: Sequence[tuple[str, bytes]]) -> list[Item | None]:
        found: list[Item | None] = []
        with self.environment.reading() as txn:
            for partition, key in lookups:
                record = txn.get(self._place(partition, key))
                found.append(None if record is None else item_of(key, record))
        return found

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
        check_partition(partition)
        check_key(key, self.capabilities)
        check_value(value, self.capabilities)
        check_fence_supported(fence, self.capabilities)
        return await self.writer.submit(
            Swap(partition=partition, key=key, value=value, expected=expected, names=names, fence=fence)
        )

    async def set_rows(
        self,
        partition: str,
        rows: Sequence[Row],
        *,
        fence: Fence | None = None,
        not_after: Instant | None = None,
    ) -> None:
        check_partition(partition)
        check_rows(rows, self.capabilities)
        check_fence_supported(fence, self.capabilities)
        await self.writer.submit(
            set_rows_request(partition, rows, fence=fence, not_after=not_after, clock=self._clock)
        )

    async def remove(self, partition: str, key: bytes, *, expected: Version) -> None:
        check_partition(partition)
        check_key(key, self.capabilities)
        await self.writer.submit(Remove(partition=partition, key=key, expected=expected))

    async def delete_rows(self, partition: str, keys: Sequence[bytes]) -> None:
        check_partition(partition)
        check_keys(keys, self.capabilities)
        await self.writer.submit(DeleteRows(partition=partition, keys=keys))

    async def drop(self, partition: str, *, first: Sequence[bytes] = ()) -> None:
        await self.delete_rows(partition, first)
        while not await self.writer.submit(DropStep(partition=partition, rows_max=DROP_STEP_ROWS)):
            pass

    async def scan(
        self,
        partition: str,
        *,
        start: bytes = b"",
        end: bytes | None = None,
        page_items_max: int = SCAN_PAGE_ITEMS,
    ) -> AsyncIterator[Page]:
        check_partition(partition)
        rows_max = min(page_items_max, LMDB_SCAN_STEP_ROWS)
        while True:
            with self.environment.reading() as txn:
                page = read_page(
                    txn, partition, start=start, end=end, rows_max=rows_max, bytes_max=LMDB_SCAN_STEP_BYTES
                )
            if not len(page):
                return
            yield page
            start = page.last_key + b"\0"
            await asyncio.sleep(0)  # a long scan lets other requests in between its pages

    async def records(self, *, after: Place | None = None) -> AsyncIterator[Sequence[Record]]:
        for partition in self.environment.partitions():
            start = b""
            if after is not None and partition <= after.partition:
                if partition < after.partition:
                    continue
                start = after.key + b"\0"
            while True:
                with self.environment.reading() as txn:
                    page = read_page(
                        txn,
                        partition,
                        start=start,
                        end=None,
                        rows_max=COPY_PAGE_ROWS,
                        bytes_max=COPY_PAGE_BYTES,
                    )
                if not len(page):
                    break
                yield [
                    Record(partition, key, value, names)
                    for key, value, names in zip(page.keys, page.values, page.names, strict=True)
                ]
                start = page.last_key + b"\0"

    async def load(self, records: Sequence[Record]) -> None:
        await self.writer.submit(Load(records))

    async def last_version(self) -> Version:
        return Version(self.environment.write(lambda step: step.version))

    async def raise_version(self, least: Version) -> None:
        self.environment.write(lambda step: step.skip_to(least))

    async def other_users(self) -> list[str]:
        return [f"process {each}" for each in self.environment.other_processes()]

    async def now(self) -> Instant:
        return self._clock.now()

    async def close(self) -> None:
        self.writer.stop()
        self.environment.close()

    def _place(self, partition: str, key: bytes) -> bytes:
        """Return the LMDB key of a row after all checks, which cost nearly every key one comparison."""
        if 0 < len(key) <= CHUNK_BYTES:
            return partition_prefix(partition) + key
        check_key(key, self.capabilities)
        return row_key(partition, key)
