"""`Database`: the one key-value store of a world, and who watches what is written to it."""

from collections.abc import AsyncGenerator, AsyncIterator, Coroutine, Sequence
from contextlib import aclosing
from copy import deepcopy
from typing import Any, Protocol, TypeVar

from lakebed.env.clock import Clock, Instant
from lakebed.kv.checks import version_changed
from lakebed.kv.drivers.memory import MemoryKV
from lakebed.kv.port import Capabilities, Expect, Fence, Item, Page, Row, Version, VersionFence

T = TypeVar("T")

Backup = dict[str, Any]
"""A copy of a database at some moment."""


class Watcher(Protocol):
    """Told of every write, once it is applied."""

    def swapped(self, partition: str, key: bytes, value: bytes) -> None: ...

    def rows_set(self, partition: str, rows: Sequence[Row]) -> None: ...

    def deleting(self, partition: str, keys: Sequence[bytes]) -> None:
        """Told before the keys go."""
        ...

    def removing(self, partition: str, key: bytes) -> None:
        """Told before a record goes that was at the expected version."""
        ...


class _Restorable(MemoryKV):
    """One that can be put back to what it was."""

    def backup(self) -> Backup:
        return deepcopy(self._partitions)

    def restore(self, backup: Backup) -> None:
        # Versions go on from where they were: nobody's record of before matches by accident.
        self._partitions = deepcopy(backup)
        self._ordered = {}


class Database:
    """`MemoryKV`, called without waiting and watched."""

    def __init__(self, clock: Clock, *, fences: bool) -> None:
        self._memory = _Restorable(clock=clock, fences=fences)
        self._watchers: list[Watcher] = []

    def watch(self, watcher: Watcher) -> None:
        """Tell `watcher` too, after those who came before it."""
        self._watchers.append(watcher)

    def backup(self) -> Backup:
        """Return all that is in it, to be restored later."""
        return self._memory.backup()

    def restore(self, backup: Backup) -> None:
        """Be what it was; nobody is told."""
        self._memory.restore(backup)

    @property
    def capabilities(self) -> Capabilities:
        return self._memory.capabilities

    def get_many(self, lookups: Sequence[tuple[str, bytes]]) -> list[Item | None]:
        return at_once(self._memory.get_many(lookups))

    def swap(
        self,
        partition: str,
        key: bytes,
        value: bytes,
        *,
        expected: Version | Expect,
        names: tuple[bytes, ...],
        fence: VersionFence | None,
    ) -> Version:
        version = at_once(
            self._memory.swap(partition, key, value, expected=expected, names=names, fence=fence)
        )
        for watcher in self._watchers:
            watcher.swapped(partition, key, value)
        return version

    def set_rows(
        self, partition: str, rows: Sequence[Row], *, fence: Fence | None, not_after: Instant | None
    ) -> None:
        at_once(self._memory.set_rows(partition, rows, fence=fence, not_after=not_after))
        for watcher in self._watchers:
            watcher.rows_set(partition, rows)

    def remove(self, partition: str, key: bytes, *, expected: Version) -> None:
        [found] = self.get_many([(partition, key)])
        if found is None or found.version != expected:
            raise version_changed(key, expected)
        for watcher in self._watchers:
            watcher.removing(partition, key)
        at_once(self._memory.remove(partition, key, expected=expected))

    def delete_rows(self, partition: str, keys: Sequence[bytes]) -> None:
        for watcher in self._watchers:
            watcher.deleting(partition, keys)
        at_once(self._memory.delete_rows(partition, keys))

    def page(self, partition: str, *, start: bytes, end: bytes | None, page_items_max: int) -> Page | None:
        return at_once(
            first_page(self._memory.scan(partition, start=start, end=end, page_items_max=page_items_max))
        )

    def now(self) -> Instant:
        return at_once(self._memory.now())


async def first_page(pages: AsyncIterator[T]) -> T | None:
    """Return the first page of a scan or listing, and end it."""
    assert isinstance(pages, AsyncGenerator)
    async with aclosing(pages) as stream:
        async for page in stream:
            found: T = page
            return found
    return None


def at_once(call: Coroutine[Any, Any, T]) -> T:
    """Return the result of a coroutine that waits for nothing."""
    try:
        call.send(None)
    except StopIteration as done:
        value: T = done.value
        return value
    raise AssertionError("a store in memory waited for something")
