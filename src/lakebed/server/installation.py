"""An embedded installation: a data folder, the engine on it, and what must be closed at the end."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace

from prometheus_client import CollectorRegistry

from lakebed.committed.cache import RangeCache
from lakebed.env.clock import Clock, SystemClock
from lakebed.env.ids import SystemIds
from lakebed.env.work import ProcessWorkers, ThreadWorkers
from lakebed.errors import ErrorKind, UnavailableError
from lakebed.kv.copying import require_in_place
from lakebed.kv.open import open_kv
from lakebed.kv.wrappers.metrics import MeteredKV
from lakebed.kv.wrappers.sampled import SampledKV
from lakebed.model.repository import GoneRepository
from lakebed.objects.drivers.memory import MemoryBucket
from lakebed.objects.external import ExternalAddresses
from lakebed.objects.open import open_store
from lakebed.objects.open_stores import OpenStores
from lakebed.objects.port import ObjectStore
from lakebed.objects.wrappers.metrics import MeteredObjects, ObjectMeters
from lakebed.objects.wrappers.retry import RetryingObjects
from lakebed.objects.wrappers.sampled import SampledObjects
from lakebed.refs.repositories import Repositories
from lakebed.server.background import Background
from lakebed.server.config import Config
from lakebed.server.data_folder import DataFolder, Layout
from lakebed.server.process import stores_open_max
from lakebed.server.wiring import Surroundings, Wired, wire

# Merging and encoding give way to requests: staging during a large commit keeps most of its rate.
_BLOCK_WORK_NICE = 10

# How long the list of namespaces that no external address may point into is remembered.
_NAMESPACES_SECONDS = 1.0


@asynccontextmanager
async def open_installation(config: Config) -> AsyncIterator[Wired]:
    """Yield the engine of an embedded installation; at the end, what was acknowledged is on disk.

    Raises:
        UnavailableError: `IN_USE`: another process serves the data folder.
    """
    folder = DataFolder.open(config.data)
    try:
        async with open_engine(config, folder.layout) as wired:
            yield wired
    finally:
        folder.close()


@asynccontextmanager
async def open_engine(
    config: Config,
    folder: Layout,
    *,
    registry: CollectorRegistry | None = None,
    background: bool = False,
    looking: bool = False,
) -> AsyncIterator[Wired]:
    """Yield an engine on a data folder that this process, or the one that started it, holds.

    With a `registry`, calls to stores are counted and timed in it; of frequent calls to what is embedded, a few are timed. Who
    works in the `background`
    leaves the cache's space, and the disk's time, to others. Who is only `looking` leaves nothing in the database.

    Raises:
        InvalidInputError: `INVALID_CONFIG`: the installation's processes have other lifetimes; its database was copied elsewhere.
    """
    async with AsyncExitStack() as stack:
        clock, ids = SystemClock(), SystemIds()
        workers = ThreadWorkers(config.threads, nice=_BLOCK_WORK_NICE)
        stack.callback(workers.close)
        # Storage has threads of its own: a small put must not wait behind a merge.
        storage_workers = ThreadWorkers(config.threads)
        stack.callback(storage_workers.close)
        processes = ProcessWorkers(config.processes, died=helper_died)
        stack.callback(processes.close)
        kv = await open_kv(config.kv_url or f"lmdb://{folder.kv}", clock=clock)
        stack.push_async_callback(kv.close)
        if registry is not None:
            # A remote database has a time of its own.
            kind = MeteredKV if kv.capabilities.engine_time else SampledKV
            kv = kind(kv, registry=registry, clock=clock)
        meters = ObjectMeters(registry) if registry is not None else None
        settings = replace(
            config.storage, data_dir=config.storage.data_dir or folder.objects, private=folder.path
        )
        buckets: dict[str, MemoryBucket] = {}

        def open_place(place: str) -> ObjectStore:
            store = open_store(
                place, settings, clock=clock, ids=ids, workers=storage_workers, buckets=buckets
            )
            is_local = place.startswith("local://")
            if meters is not None:
                metered = SampledObjects if is_local else MeteredObjects
                store = metered(store, meters=meters, clock=clock)
            return store if is_local else RetryingObjects(store, clock=clock, ids=ids)

        places = settings.places
        stores = OpenStores(open_place, clock=clock, place_of=places.usable, open_max=stores_open_max())
        stack.push_async_callback(stores.close)
        tasks = Background(clock)
        stack.push_async_callback(tasks.stop)
        tasks.start("idle_stores", stores.run)
        namespaces = _RememberedNamespaces(clock)
        external = ExternalAddresses(
            import_prefixes=config.import_prefixes, namespaces=namespaces, settings=settings
        )
        stack.push_async_callback(external.close)
        wired = wire(
            Surroundings(
                kv=kv,
                stores=stores,
                external=external,
                places=places,
                cache=RangeCache(
                    folder.cache, workers=workers, bytes_max=config.cache_bytes, fills=not background
                ),
                workers=workers,
                processes=processes,
                transfers=storage_workers,
                clock=clock,
                ids=ids,
                temp=folder.tmp,
                staging_wait_seconds=config.staging_wait_seconds,
                staging_segments=config.staging_segments,
                compaction_limits=config.compaction_limits,
                lifetimes=config.lifetimes,
                shared=config.shared,
                slice_objects=config.slice_objects,
                refs_dump_seconds=config.refs_dump_seconds,
                refs_owner_seconds=config.refs_owner_seconds,
                installation=socket.gethostname(),
            )
        )
        await require_in_place(kv)
        await (wired.engine.agreement.require() if looking else wired.engine.agreement.join())
        namespaces.ask(wired.engine.repositories, places.canonical)
        stack.push_async_callback(wired.engine.parts.staging.drain)
        stack.push_async_callback(wired.sessions.tasks.drain)
        yield wired


def helper_died(why: str) -> UnavailableError:
    """Return the error of work that helper processes could not do."""
    return UnavailableError(
        ErrorKind.HELPER_DIED, f"{why}: try again, with less at a time if this machine lacks memory"
    )


class _RememberedNamespaces:
    """The namespaces of all repositories, asked for at most once a second."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._repositories: Repositories | None = None
        self._canonical: Callable[[str], str] = str
        self._known: list[str] = []
        self._places: dict[str, str] = {}
        self._until = 0.0
        self._asking = asyncio.Lock()

    def ask(self, repositories: Repositories, canonical: Callable[[str], str]) -> None:
        self._repositories, self._canonical = repositories, canonical

    async def __call__(self) -> list[str]:
        if self._is_over():
            async with self._asking:
                # Whoever waited here finds that somebody else has asked.
                if self._is_over():
                    await self._ask()
        return self._known

    def _is_over(self) -> bool:
        return self._clock.monotonic() >= self._until

    async def _ask(self) -> None:
        assert self._repositories is not None, "wired before the first request"
        places: dict[str, str] = {}
        async for found in self._repositories.scan():
            if not isinstance(found.value, GoneRepository):
                namespace = found.value.namespace
                # Resolved once: where a repository's storage lies does not change.
                places[namespace] = self._places.get(namespace) or self._canonical(namespace)
        self._places, self._known = places, list(places.values())
        self._until = self._clock.monotonic() + _NAMESPACES_SECONDS
