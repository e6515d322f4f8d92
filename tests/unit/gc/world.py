"""A lake whose time a test owns, and a collector that reads what it is told."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from lakebed.auth.caller import SYSTEM
from lakebed.catalog.settings import Settings
from lakebed.env.clock import SECOND, Instant, after
from lakebed.env.ids import SeededIds
from lakebed.format.gc import COMMITS_FILE, ROOTS, UNCOMMITTED_FILE, Roots, decode_table
from lakebed.format.records import decode_commit
from lakebed.gc.commit_lists import RunToken
from lakebed.gc.cursor import encode_cursor
from lakebed.gc.service import GarbageCollection
from lakebed.kv.drivers.memory import MemoryKV
from lakebed.model.gc import Mark, MarkKind, RunKind
from lakebed.model.gc_rules import GcRules
from lakebed.model.ids import CommitId
from lakebed.refs.keys import commit_key
from lakebed.testing.lake import Lake, open_lake

DAY = 24 * 3600.0
Hook = Callable[[str, Any], Awaitable[None]]


class OwnedClock:
    """Time stands still until somebody sleeps or the test moves it."""

    def __init__(self) -> None:
        self.instant = Instant(1_700_000_000 * SECOND)

    def now(self) -> Instant:
        self.instant = Instant(self.instant + 1)  # Two commits of one instant would be one.
        return self.instant

    def monotonic(self) -> float:
        return self.instant / SECOND

    async def sleep(self, seconds: float) -> None:
        if seconds > 1:
            await asyncio.get_running_loop().create_future()  # Heartbeats do not beat here.
        self.advance(seconds)
        await asyncio.sleep(0)

    def advance(self, seconds: float) -> None:
        self.instant = after(self.instant, seconds)


class WatchedKV(MemoryKV):
    """Calls `hook` before each call, with its name and what it is about."""

    hook: Hook | None = None

    async def get(self, partition: str, key: bytes) -> Any:
        if self.hook is not None:
            await self.hook("get", key)
        return await super().get(partition, key)

    async def get_many(self, lookups: Any) -> Any:
        if self.hook is not None:
            await self.hook("get_many", lookups)
        return await super().get_many(lookups)

    async def set_rows(self, partition: str, rows: Any, **options: Any) -> None:
        if self.hook is not None:
            await self.hook("set_rows", rows)
        await super().set_rows(partition, rows, **options)

    async def swap(self, partition: str, key: bytes, value: bytes, **options: Any) -> Any:
        if self.hook is not None:
            await self.hook("swap", key)
        return await super().swap(partition, key, value, **options)

    async def scan(self, partition: str, *, start: bytes = b"", **options: Any) -> Any:
        if self.hook is not None:
            await self.hook("scan", start)
        async for page in super().scan(partition, start=start, **options):
            yield page


@dataclass
class Listed:
    """What a preparation of commits says."""

    live: set[str]
    reachable: set[str]
    commits: set[str]
    roots: Roots


@dataclass
class World:
    lake: Lake
    clock: OwnedClock
    kv: WatchedKV
    of: RunToken | None = None
    notes: dict[str, str] = field(default_factory=dict)
    """What a scenario has to remember."""

    @property
    def gc(self) -> GarbageCollection:
        return self.lake.engine.gc

    async def rules(self, default: int, **branches: int) -> None:
        settings = Settings(self.lake.engine, SYSTEM)
        await settings.set_gc_rules("lake", GcRules(default_days=default, branches=branches))

    async def begin(self, *, kind: RunKind = RunKind.MARK, takeover: bool = False) -> RunToken:
        state = await self.gc.begin(
            self.lake.repo, kind, holder="tester", grace_seconds=DAY, takeover=takeover
        )
        assert state.lease is not None
        self.of = RunToken(run=state.lease.run, token=state.lease.token)
        return self.of

    async def commits(self, of: RunToken | None = None) -> Listed:
        """Prepare the commits, and read the list."""
        prepared = await self.gc.prepare_commits(self.lake.repo, of)
        store = await self.lake.engine.store_of(self.lake.repo)
        roots = ROOTS.open(await store.get(prepared.roots))
        live, reachable, commits = set(), set(), set()
        for file in roots.commits:
            table = decode_table(COMMITS_FILE, await store.get(file.key), rows=file.rows)
            for row in table.to_pylist():
                commits.add(row["commit_id"])
                live |= {row["commit_id"]} if row["live"] else set()
                reachable |= {row["commit_id"]} if row["reachable"] else set()
        return Listed(live, reachable, commits, roots)

    async def publish(self, of: RunToken) -> Mark:
        return await self.gc.publish(self.lake.repo, of, kind=MarkKind.CLEAN, counts={})

    async def mark(self) -> Listed:
        """Begin a run, prepare its commits, publish, end."""
        of = await self.begin()
        listed = await self.commits(of)
        await self.publish(of)
        await self.gc.end(self.lake.repo, of, outcome="done")
        return listed

    async def uncommitted(self, of: RunToken | None = None) -> dict[str, set[str]]:
        """Return every address that is listed, and by which sources."""
        store = await self.lake.engine.store_of(self.lake.repo)
        found: dict[str, set[str]] = {}
        continuation, pages = "", 0
        while True:
            page = await self.gc.prepare_uncommitted(self.lake.repo, of, continuation=continuation)
            table = decode_table(UNCOMMITTED_FILE, await store.get(page.key), rows=page.rows)
            for row in table.to_pylist():
                found.setdefault(row["address"], set()).add(row["source"])
            pages += 1
            assert pages < 1000, "pages without end"
            if page.following is None:
                return found
            continuation = encode_cursor(page.following)

    async def address(self, ref: str, path: str) -> str:
        return (await self.lake.catalog.objects.stat("lake", ref, path)).address

    async def condemned_by(self, commit: str) -> str:
        item = await self.kv.get(self.lake.repo.partition, commit_key(CommitId(commit)))
        assert item is not None
        return decode_commit(item.value).condemned_by


@asynccontextmanager
async def open_world(*, fences: bool = True, seed: int = 1, **options: Any) -> AsyncIterator[World]:
    clock = OwnedClock()
    kv = WatchedKV(clock=clock, fences=fences)
    async with open_lake(kv, clock=clock, ids=SeededIds(seed), **options) as lake:
        yield World(lake, clock, kv)
