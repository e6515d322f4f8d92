"""`Site`: stores on which engines stand. Two engines on one site are two servers of one installation."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from lakebed.committed.cache import RangeCache
from lakebed.env.clock import Clock, SystemClock
from lakebed.env.ids import SystemIds
from lakebed.env.work import InlineWorkers, ThreadWorkers, Workers
from lakebed.kv.drivers.postgres import PostgresKV
from lakebed.kv.port import KVStore
from lakebed.model.repository import GoneRepository
from lakebed.objects.external import ExternalAddresses
from lakebed.objects.open import open_store
from lakebed.objects.open_stores import OpenStores
from lakebed.objects.port import ObjectStore
from lakebed.objects.settings import StoreSettings
from lakebed.server.wiring import Surroundings, Wired, wire
from lakebed.staging.appending import SegmentUse
from lakebed.testing.lake import Lake


@dataclass(frozen=True)
class Site:
    """What several engines share: a key-value store, object stores, a folder."""

    folder: Path
    namespaces: str
    """Where repositories lie: a name is appended."""
    settings: StoreSettings
    postgres_url: str | None = None
    kv: KVStore | None = None
    """One that is not opened twice in a process. Otherwise every engine connects for itself."""
    import_prefixes: tuple[str, ...] = ()
    staging_segments: SegmentUse = SegmentUse.AUTO
    in_memory: dict[str, ObjectStore] = field(default_factory=dict)
    """The memory stores of all engines, by their namespaces; tests may put their own here."""

    @asynccontextmanager
    async def engine(
        self, *, clock: Clock | None = None, processes: Workers | None = None
    ) -> AsyncIterator[tuple[KVStore, Wired]]:
        """Yield an engine with its own caches and threads."""
        clock, ids = clock or SystemClock(), SystemIds()
        async with AsyncExitStack() as stack:
            kv = self.kv
            if kv is None:
                assert self.postgres_url is not None
                kv = await PostgresKV.connect(self.postgres_url, clock=clock)
                stack.push_async_callback(kv.close)
            workers = ThreadWorkers(2)
            stack.callback(workers.close)
            places = self.settings.places

            def open_place(place: str) -> ObjectStore:
                if place in self.in_memory:
                    return self.in_memory[place]
                store = open_store(place, self.settings, clock=clock, ids=ids, workers=workers)
                if place.startswith("mem:"):
                    self.in_memory[place] = store
                return store

            stores = OpenStores(open_place, clock=clock, place_of=places.usable)
            stack.push_async_callback(stores.close)

            async def namespaces() -> list[str]:
                repositories = wired.engine.repositories.scan()
                return [
                    places.canonical(found.value.namespace)
                    async for found in repositories
                    if not isinstance(found.value, GoneRepository)
                ]

            external = ExternalAddresses(
                import_prefixes=self.import_prefixes, namespaces=namespaces, settings=self.settings
            )
            stack.push_async_callback(external.close)
            wired = wire(
                Surroundings(
                    kv=kv,
                    stores=stores,
                    external=external,
                    places=places,
                    cache=RangeCache(self.folder / f"cache-{ids.token()}", workers=workers),
                    workers=workers,
                    processes=processes or InlineWorkers(),
                    clock=clock,
                    ids=ids,
                    temp=self.folder,
                    staging_segments=self.staging_segments,
                )
            )
            stack.push_async_callback(wired.engine.parts.staging.drain)
            stack.push_async_callback(wired.sessions.tasks.drain)
            yield kv, wired

    @asynccontextmanager
    async def lake(
        self, *, clock: Clock | None = None, processes: Workers | None = None
    ) -> AsyncIterator[Lake]:
        """Yield an engine and its repository `lake`, made by whoever comes first."""
        async with self.engine(clock=clock, processes=processes) as (kv, wired):
            listed = await wired.catalog.repositories.list(prefix="lake")
            found = [repo for repo in listed.results if repo.name == "lake"]
            repo = (
                found[0]
                if found
                else await wired.catalog.repositories.create("lake", f"{self.namespaces}lake")
            )
            yield Lake(kv, wired.engine, wired.catalog, wired.cleaner, repo)


def local_settings(folder: Path) -> StoreSettings:
    """Local files, as an embedded installation has them; repositories may lie anywhere in the folder."""
    return StoreSettings(data_dir=folder / "objects", local_roots=(folder,))
