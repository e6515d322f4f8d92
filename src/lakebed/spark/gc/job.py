"""Wiring: a client, a store and an engine make a `World`. The only place of the job that knows all of them.

An engine announces itself in the entry-point group `lakebed.gc_engines`, so that what it needs is imported
only when it is asked for.
"""

import getpass
import os
import socket
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any, Final, Literal, Protocol, cast

from lakebed.client.gc import GarbageCollection
from lakebed.client.replies import GcRunStarted, GcStorage
from lakebed.client.repo import Repo
from lakebed.env.clock import Clock, Instant, SystemClock
from lakebed.env.work import ThreadWorkers, Workers
from lakebed.errors import ErrorKind, InvalidInputError
from lakebed.format.gc import DataFile
from lakebed.model.gc import MarkKind
from lakebed.model.ids import RepoUid
from lakebed.spark.gc.obstore_store import ObstoreStore, open_place
from lakebed.spark.gc.ports import PublishedMark, Started, StorePlace, Tables
from lakebed.spark.gc.progress import HowFar, Watcher
from lakebed.spark.gc.protocol import Tools, World

_GROUP: Final = "lakebed.gc_engines"
# Requests to the server come one after the other, beside the heartbeat; decoding and joins use the rest.
_THREADS: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineOptions:
    """What an engine is made of."""

    master: str | None
    """Spark's; None means: on this machine."""
    clock: Clock
    workers: Workers
    spark_log: Path | None = None
    """Where to keep what a Spark of our own has to say."""


class Engine(Protocol):
    """An engine that is ready."""

    def tables(self, started: Started, store: ObstoreStore) -> Tables[Any]:
        """Return the tables of a run."""
        ...

    def how_far(self) -> HowFar:
        """Return what was done so far; from any thread."""
        ...


class EngineOpener(Protocol):
    """What an entry point of the group gives: an engine that has a JVM, or files, until the block ends."""

    def __call__(self, options: EngineOptions) -> AbstractContextManager[Engine]: ...


class ClientServer:
    """A `Server` over the REST client, whose calls wait in threads."""

    def __init__(self, gc: GarbageCollection, workers: Workers) -> None:
        self._gc = gc
        self._workers = workers

    async def begin(self, kind: Literal["mark", "sweep"], *, grace_seconds: float) -> Started:
        begun = await self._workers.run(self._gc.begin, kind, holder=_holder(), grace_seconds=grace_seconds)
        return _started(begun)

    async def renew(self, started: Started) -> Instant:
        lease = await self._workers.run(self._gc.renew, started.run, started.token)
        return Instant(lease.now)

    async def prepare_uncommitted(self, started: Started, continuation: str) -> tuple[DataFile, str]:
        page = await self._workers.run(
            self._gc.prepare_uncommitted, started.run, started.token, continuation=continuation
        )
        return DataFile(page.key, page.rows), page.continuation_token or ""

    async def prepare_commits(self, started: Started) -> str:
        prepared = await self._workers.run(self._gc.prepare_commits, started.run, started.token)
        return prepared.roots

    async def publish(self, started: Started, kind: MarkKind, counts: Mapping[str, int]) -> Instant:
        mark = await self._workers.run(
            self._gc.publish, started.run, started.token, kind.value, counts=counts
        )
        return Instant(mark.marked_at)

    async def start_sweep(self, started: Started, mark: str) -> None:
        await self._workers.run(self._gc.start_sweep, started.run, started.token, mark)

    async def withdraw_marks(self, started: Started) -> None:
        await self._workers.run(self._gc.withdraw_marks, started.run, started.token)

    async def end(self, started: Started, outcome: str, counts: Mapping[str, int]) -> None:
        await self._workers.run(self._gc.end, started.run, started.token, outcome=outcome, counts=counts)


@contextmanager
def opened_world(
    repo: Repo, *, engine: str, master: str | None, watcher: Watcher, spark_log: Path | None = None
) -> Iterator[World[Any]]:
    """Return what a run on a repository works with; everything is closed at the end.

    Raises:
        InvalidInputError: `INVALID_CONFIG`: there is no such engine, or what it needs is not installed.
    """
    workers, clock = ThreadWorkers(_THREADS), SystemClock()
    try:
        options = EngineOptions(master=master, clock=clock, workers=workers, spark_log=spark_log)
        with _engine(engine)(options) as ready:
            yield World(
                server=ClientServer(repo.gc, workers),
                open=lambda started: _tools(started, ready),
                clock=clock,
                watcher=watcher,
            )
    finally:
        workers.close()


def open_storage(storage: GcStorage) -> ObstoreStore:
    """Return the store of a namespace, with this process's own credentials."""
    return open_place(_place(storage), os.environ)  # noqa: TID251  the configuration of this process


def _tools(started: Started, engine: Engine) -> Tools[Any]:
    assert started.place is not None, "the server says where a namespace lies"
    store = open_place(started.place, os.environ)  # noqa: TID251  the configuration of this process
    return Tools(store, engine.tables(started, store), engine.how_far)


def _engine(name: str) -> EngineOpener:
    engines: dict[str, EntryPoint] = {each.name: each for each in entry_points(group=_GROUP)}
    if name not in engines:
        known = " or ".join(sorted(engines))
        raise InvalidInputError(ErrorKind.INVALID_CONFIG, f"there is no engine '{name}': say {known}")
    try:
        return cast("EngineOpener", engines[name].load())
    except ModuleNotFoundError as error:
        raise InvalidInputError(
            ErrorKind.INVALID_CONFIG,
            f"the engine '{name}' needs the module {error.name!r}: install 'lakebed[spark]', or say --engine polars",
        ) from error


def _started(begun: GcRunStarted) -> Started:
    return Started(
        run=begun.run_id,
        token=begun.token,
        repository=begun.repository,
        uid=RepoUid(begun.uid),
        namespace=begun.namespace,
        now=Instant(begun.now),
        lease_seconds=begun.lease_seconds,
        # How long the server keeps what left its place; what it says of the run is how far apart marks are.
        grace_seconds=begun.reader_grace_seconds,
        link_seconds=begun.link_seconds,
        slice_seconds=begun.slice_seconds,
        clock_slack_seconds=begun.clock_slack_seconds,
        marks=tuple(
            PublishedMark(
                run=mark.run_id,
                started_at=Instant(mark.started_at),
                marked_at=Instant(mark.marked_at),
                kind=MarkKind(mark.kind),
                optimized_since_clean=mark.optimized_since_clean,
            )
            for mark in begun.marks
        ),
        place=_place(begun.storage),
    )


def _place(storage: GcStorage) -> StorePlace:
    return StorePlace(
        kind=storage.type,
        url=storage.url,
        endpoint=storage.endpoint,
        region=storage.region,
        path_style=storage.path_style,
    )


def _holder() -> str:
    """Return who holds a lease, for whoever waits for it."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = str(os.getuid())
    return f"{user}@{socket.gethostname()} ({os.getpid()})"
