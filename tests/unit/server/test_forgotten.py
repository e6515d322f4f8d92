"""A process forgets deleted repositories: whatever it keeps by repository has a bound, and this is the list of it."""

import gc
from collections.abc import Iterator
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

from prometheus_client import CollectorRegistry

from lakebed.compaction.meters import CompactionMeters
from lakebed.compaction.worker import CompactionWorker
from lakebed.env.clock import SystemClock
from lakebed.env.ids import SystemIds
from lakebed.kv.drivers.memory import MemoryKV
from lakebed.objects.drivers.memory import MemoryBucket
from lakebed.server.maintenance import Maintenance
from lakebed.testing.lake import COMMIT, open_wired

REPOSITORIES = 12

BOUNDED = {
    "AutomaticDumps._looked": "twice DECODED_RECORDS_MAX",
    "Cleaner._swept": "the repositories of one era",
    "Commits._cache": "COMMIT_CACHE_ITEMS",
    "Decoded._known": "DECODED_RECORDS_MAX",
    "OpenStores._handle": "STORE_HANDLES_MAX",
    "ReadAhead._shown": "READ_AHEAD_REFS_MAX",
    "ReadAhead._used": "READ_AHEAD_REFS_MAX",
    "Readings._known": "DECODED_RECORDS_MAX",
    "Staging._writers": "1,000 writers, then idle ones go",
    "Targets._known": "DECODED_RECORDS_MAX",
    "Turns._queues": "1,000 queues, then idle ones go",
}


async def test_what_a_process_keeps_by_repository_has_a_bound() -> None:
    async with open_wired() as (wired, _):
        clock, ids = SystemClock(), SystemIds()
        maintenance = Maintenance(wired, clock=clock, ids=ids)
        worker = CompactionWorker(
            wired.engine.compaction,
            wired.job_runner,
            places=1,
            clock=clock,
            ids=ids,
            meters=CompactionMeters(CollectorRegistry()),
        )
        uids = set[str]()
        for number in range(REPOSITORIES):
            name = f"repo-{number}"
            uids |= {name, (await wired.catalog.repositories.create(name, f"mem://{name}")).uid}
            await wired.catalog.objects.upload(name, "main", "a", b"1")
            await wired.catalog.commits.commit(name, "main", COMMIT)
            await wired.catalog.objects.upload(name, "main", "b", b"2")
            await wired.catalog.objects.list(name, "main")
            await wired.read_ahead.once()
            await maintenance.once()
            await worker.round()
            await wired.catalog.repositories.delete(name)
        await maintenance.once()
        await worker.round()

        found = {owner for owner, values in _containers([wired, maintenance, worker]) if values & uids}

        assert found <= BOUNDED.keys(), f"no bound is known of {sorted(found - BOUNDED.keys())}"


def _containers(roots: list[Any]) -> Iterator[tuple[str, set[str]]]:
    """Yield the texts in the keys of every container that is reachable, with the class and attribute that hold it."""
    seen: set[int] = set()
    todo: list[tuple[str, Any]] = [("", each) for each in roots]
    while todo:
        owner, value = todo.pop()
        if id(value) in seen or isinstance(value, _SKIPPED):
            continue
        seen.add(id(value))
        if isinstance(value, dict | set | list | tuple | frozenset):
            if isinstance(value, dict | set):
                yield owner, set(_texts(value))
            items = [*value.keys(), *value.values()] if isinstance(value, dict) else list(value)
            todo += [(owner, item) for item in items]
        elif isinstance(value, MethodType):
            todo.append((owner, value.__self__))
        elif type(value).__module__.startswith("lakebed"):
            todo += [(f"{type(value).__name__}.{name}", each) for name, each in _attributes(value)]
        elif type(value).__name__ == "_lru_cache_wrapper":
            todo += [(owner, each) for each in gc.get_referents(value)]


_SKIPPED = (
    str,
    bytes,
    int,
    float,
    type,
    ModuleType,
    FunctionType,
    BuiltinFunctionType,
    MemoryKV,
    MemoryBucket,
)


def _attributes(value: Any) -> Iterator[tuple[str, Any]]:
    yield from getattr(value, "__dict__", {}).items()
    for kind in type(value).__mro__:
        for name in getattr(kind, "__slots__", ()):
            if hasattr(value, name):
                yield name, getattr(value, name)


def _texts(keys: Any) -> Iterator[str]:
    """Yield the repository uids, and texts that contain them, of keys that may be tuples."""
    for key in keys:
        for part in key if isinstance(key, tuple) else (key,):
            if isinstance(part, str):
                yield part
                yield from part.split("-")
