"""A whole engine in memory, for tests: `async with lake() as it: …`.

Everything is real but the stores below, and those can be swapped for real ones.
"""

import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from lakebed.catalog.engine import Engine
from lakebed.catalog.session import Session
from lakebed.committed.cache import RangeCache
from lakebed.compaction.limits import CompactionLimits
from lakebed.env.clock import Clock, SystemClock
from lakebed.env.ids import IdSource, SystemIds
from lakebed.env.work import InlineWorkers
from lakebed.format.cut import DEFAULT_RULE, CutRule
from lakebed.kv.drivers.memory import MemoryKV
from lakebed.kv.port import KVStore
from lakebed.model.lifetimes import Lifetimes
from lakebed.model.repository import Repository
from lakebed.objects.drivers.memory import MemoryObjects
from lakebed.objects.namespaces import normalise_namespace
from lakebed.objects.open import open_store
from lakebed.objects.open_stores import OpenStores
from lakebed.objects.places import Places
from lakebed.objects.port import ObjectStore
from lakebed.objects.settings import StoreSettings
from lakebed.refs.cleaner import Cleaner
from lakebed.server.wiring import Surroundings, Wired, wire
from lakebed.staging.appending import SegmentUse
from lakebed.testing.outside import OutsideMemory
from lakebed.versioning.commit import CommitRequest

COMMIT = CommitRequest(committer="tester", message="a commit")


@dataclass(frozen=True, slots=True)
class Lake:
    """An engine with one repository `lake` and its branch `main`."""

    kv: KVStore
    engine: Engine
    catalog: Session
    cleaner: Cleaner
    repo: Repository

    async def put(self, branch: str, **objects: str) -> None:
        """Upload objects: path and content."""
        for path, content in objects.items():
            await self.catalog.objects.upload("lake", branch, path, content.encode())

    async def commit(self, branch: str, **objects: str) -> str:
        """Upload objects, commit, and return the commit's id."""
        await self.put(branch, **objects)
        return (await self.catalog.commits.commit("lake", branch, COMMIT)).id

    async def show(self, ref: str) -> dict[str, str]:
        """Return every object of a ref: path and content."""
        found, after = {}, ""
        while True:
            page = await self.catalog.objects.list("lake", ref, after=after, amount=1000)
            for path in page.rows.column("key").to_pylist():
                _, chunks = await self.catalog.objects.read("lake", ref, path)
                found[path] = b"".join([chunk async for chunk in chunks]).decode()
            if not page.has_more:
                return found
            after = page.last


@asynccontextmanager
async def open_lake(
    kv: KVStore | None = None,
    *,
    clock: Clock | None = None,
    ids: IdSource | None = None,
    cut_rule: CutRule = DEFAULT_RULE,
    staging_segments: SegmentUse = SegmentUse.AUTO,
    outside: ObjectStore | None = None,
) -> AsyncIterator[Lake]:
    """Yield an engine on `kv` (in memory unless given) with an empty repository, which may import from `outside`."""
    async with open_wired(
        kv, clock=clock, ids=ids, cut_rule=cut_rule, staging_segments=staging_segments, outside=outside
    ) as (wired, used):
        repo = await wired.catalog.repositories.create("lake", "mem://lake")
        yield Lake(used, wired.engine, wired.catalog, wired.cleaner, repo)


@asynccontextmanager
async def open_wired(
    kv: KVStore | None = None,
    *,
    clock: Clock | None = None,
    ids: IdSource | None = None,
    cut_rule: CutRule = DEFAULT_RULE,
    compaction_limits: CompactionLimits | None = None,
    staging_segments: SegmentUse = SegmentUse.AUTO,
    lifetimes: Lifetimes | None = None,
    shared: Mapping[str, float] | None = None,
    outside: ObjectStore | None = None,
) -> AsyncIterator[tuple[Wired, KVStore]]:
    """Yield an engine without a repository, and the KV it is on."""
    clock = clock or SystemClock()
    store_kv = kv or MemoryKV(clock=clock)
    stores = OpenStores(
        partial(open_store, settings=StoreSettings(), buckets={}), clock=clock, place_of=normalise_namespace
    )
    workers = InlineWorkers()
    with tempfile.TemporaryDirectory() as temp:
        wired = wire(
            Surroundings(
                kv=store_kv,
                stores=stores,
                external=OutsideMemory(outside or MemoryObjects()),
                places=Places(),
                cache=RangeCache(None, workers=workers),
                workers=workers,
                processes=workers,
                clock=clock,
                ids=ids or SystemIds(),
                temp=Path(temp),
                cut_rule=cut_rule,
                compaction_limits=compaction_limits or CompactionLimits(),
                staging_segments=staging_segments,
                lifetimes=lifetimes or Lifetimes(),
                shared=shared or {},
            )
        )
        yield wired, store_kv
        await wired.engine.parts.staging.drain()
        await stores.close()
