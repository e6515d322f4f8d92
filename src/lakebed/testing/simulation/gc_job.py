"""The collector as the simulation runs it: the job's own protocol, with its ports put through the network.

The job lives in one process, the server that it asks in another. A request to the server may be lost on its way, or its
reply; the server goes on with what it was asked for although nobody waits any more.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

import pyarrow as pa

from lakebed.env.clock import Clock, Instant, after
from lakebed.env.work import InlineWorkers
from lakebed.errors import ErrorKind, LakebedError, NotFoundError, UnavailableError
from lakebed.format.gc import OBJECTS_FILE, DataFile
from lakebed.gc.commit_lists import RunToken
from lakebed.gc.cursor import encode_cursor
from lakebed.limits import GC_CLOCK_SLACK_SECONDS, GC_LEASE_SECONDS, GRACE_SECONDS, SLICE_SECONDS
from lakebed.model.gc import MarkKind, RunKind
from lakebed.model.repository import Repository
from lakebed.objects.port import ObjectInfo, ObjectStore, PutMode
from lakebed.spark.gc.polars_tables import PolarsTables
from lakebed.spark.gc.ports import Folder, PublishedMark, Started
from lakebed.spark.gc.protocol import Tools
from lakebed.spark.gc.protocol import World as JobWorld
from lakebed.testing.simulation.chance import Chance
from lakebed.testing.simulation.loop import WORLD, SimLoop
from lakebed.testing.simulation.process import SimProcess

T = TypeVar("T")

GC_PART = "gc"
"""The part of a process that collects garbage, as a job or for one."""

# How long the job waits for an answer: longer than a lease, so that others may have taken it by then.
_PATIENCE_SECONDS = 90.0
_TRIES = 4
# How many requests do not go to a server that is known not to answer.
_HEALTHY = 0.7


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """The way from a job to the servers."""

    loop: SimLoop
    chance: Chance
    servers: Callable[[], Sequence[SimProcess]]
    lost: float
    """How many requests never arrive, and how many replies."""
    met: Counter[str] = field(default_factory=Counter)

    async def ask(self, what: str, call: Callable[[SimProcess], Awaitable[T]]) -> T:
        """Return what some server answers, or raise what it raises, or `UnavailableError`."""
        server = self._server()
        reply: asyncio.Future[T] = self.loop.create_future()
        heard, answered = not self.chance.happens(self.lost), not self.chance.happens(self.lost)

        async def serve() -> None:
            self.met[f"reply lost: {what}"] += not answered
            try:
                value = await call(server)
            except LakebedError as error:
                self._later(_fail, reply, error, answered)
            else:
                self._later(_answer, reply, value, answered)

        if heard and server.alive:
            server.spawn(serve(), part=GC_PART)
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                return await reply
        except TimeoutError:
            raise UnavailableError(ErrorKind.OUTCOME_UNKNOWN, f"{what}: no answer") from None

    def _server(self) -> SimProcess:
        """Return mostly one that would answer, as whoever stands before the servers finds out."""
        servers = self.servers()
        awake = [server for server in servers if server.awake]
        return self.chance.pick(awake if awake and self.chance.happens(_HEALTHY) else servers)

    def _later(self, function: Callable[..., None], *args: object) -> None:
        self.loop.call_later(self.chance.between(0.0002, 0.004), function, *args, context=WORLD)


def _answer(reply: "asyncio.Future[Any]", value: object, answered: bool) -> None:
    if answered and not reply.done():
        reply.set_result(value)


def _fail(reply: "asyncio.Future[Any]", error: LakebedError, answered: bool) -> None:
    if answered and not reply.done():
        reply.set_exception(error)


class SimServer:
    """The `Server` of a job: each call goes to some process."""

    def __init__(
        self, line: Line, repo: Repository, *, holder: str, link_seconds: float, takeover: bool = False
    ) -> None:
        self._takeover = takeover
        self._line = line
        self._repo = repo
        self._holder = holder
        self._link_seconds = link_seconds

    async def begin(self, kind: Literal["mark", "sweep"], *, grace_seconds: float) -> Started:
        async def call(server: SimProcess) -> Started:
            state = await server.engine.gc.begin(
                self._repo,
                RunKind(kind),
                holder=self._holder,
                grace_seconds=grace_seconds,
                takeover=self._takeover,
            )
            assert state.lease is not None
            return Started(
                run=state.lease.run,
                token=state.lease.token,
                repository=self._repo.name,
                uid=self._repo.uid,
                namespace=self._repo.namespace,
                now=await server.kv.now(),
                lease_seconds=GC_LEASE_SECONDS,
                grace_seconds=GRACE_SECONDS,
                link_seconds=self._link_seconds,
                slice_seconds=SLICE_SECONDS,
                clock_slack_seconds=GC_CLOCK_SLACK_SECONDS,
                marks=tuple(
                    PublishedMark(
                        run=mark.run,
                        started_at=mark.started_at,
                        marked_at=mark.marked_at,
                        kind=mark.kind,
                        optimized_since_clean=mark.optimized_since_clean,
                    )
                    for mark in state.marks
                ),
            )

        return await self._line.ask("begin", call)

    async def renew(self, started: Started) -> Instant:
        async def call(server: SimProcess) -> Instant:
            await server.engine.gc.renew(self._repo, _token(started))
            return await server.kv.now()

        return await self._line.ask("renew", call)

    async def prepare_uncommitted(self, started: Started, continuation: str) -> tuple[DataFile, str]:
        async def call(server: SimProcess) -> tuple[DataFile, str]:
            page = await server.engine.gc.prepare_uncommitted(
                self._repo, _token(started), continuation=continuation
            )
            following = encode_cursor(page.following) if page.following is not None else ""
            return DataFile(page.key, page.rows), following

        return await self._line.ask("prepare_uncommitted", call)

    async def prepare_commits(self, started: Started) -> str:
        async def call(server: SimProcess) -> str:
            return (await server.engine.gc.prepare_commits(self._repo, _token(started))).roots

        return await self._line.ask("prepare_commits", call)

    async def publish(self, started: Started, kind: MarkKind, counts: Mapping[str, int]) -> Instant:
        async def call(server: SimProcess) -> Instant:
            mark = await server.engine.gc.publish(self._repo, _token(started), kind=kind, counts=counts)
            return mark.marked_at

        return await self._line.ask("publish", call)

    async def start_sweep(self, started: Started, mark: str) -> None:
        async def call(server: SimProcess) -> None:
            await server.engine.gc.start_sweep(self._repo, _token(started), mark)

        await self._line.ask("start_sweep", call)

    async def withdraw_marks(self, started: Started) -> None:
        async def call(server: SimProcess) -> None:
            await server.engine.gc.withdraw_marks(self._repo, _token(started))

        await self._line.ask("withdraw_marks", call)

    async def end(self, started: Started, outcome: str, counts: Mapping[str, int]) -> None:
        async def call(server: SimProcess) -> None:
            await server.engine.gc.end(self._repo, _token(started), outcome=outcome, counts=counts)

        await self._line.ask("end", call)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreFaults:
    """What is wrong with a store."""

    ahead_seconds: float = 0.0
    unreadable: tuple[str, ...] = ()
    """What is in the names of objects and folders that cannot be read."""


class SimStore:
    """The `Store` of a job: the namespace, as the job's process reaches it. What fails is tried again, as obstore does.

    The store's clock may be ahead of everybody else's, and some things cannot be read, however often it is tried.
    """

    def __init__(self, store: ObjectStore, clock: Clock, faults: StoreFaults) -> None:
        self._store = store
        self._clock = clock
        self._ahead_seconds = faults.ahead_seconds
        self._unreadable = faults.unreadable

    async def get(self, key: str) -> bytes:
        self._require_readable(key)
        return await self._again(lambda: self._store.get(key))

    async def put(self, key: str, data: bytes) -> None:
        await self._again(lambda: self._store.put(key, data, when=PutMode.OVERWRITE))

    async def mtime(self, key: str) -> Instant:
        found = await self._again(lambda: self._store.head(key))
        if found is None:
            raise NotFoundError(ErrorKind.KEY_NOT_FOUND, key)
        return after(found.mtime, self._ahead_seconds)

    async def folder(self, prefix: str) -> Folder:
        found = [info async for page in self._store.list(prefix) for info in page]
        inside = [info.key.removeprefix(prefix) for info in found]
        folders = sorted({name.split("/")[0] for name in inside if "/" in name})
        direct = [info for info, name in zip(found, inside, strict=True) if "/" not in name]
        return Folder(folders=folders, objects=self._objects(direct))

    async def list(self, prefix: str) -> AsyncIterator[pa.Table]:
        async for page in self._store.list(prefix, page_items_max=20):
            self._require_readable(prefix)
            yield self._objects(page)

    async def delete(self, keys: Sequence[str]) -> None:
        await self._again(lambda: self._store.delete(keys))

    async def copy(self, source: str, target: str) -> None:
        await self._again(lambda: self._store.copy(source, target))

    def _require_readable(self, what: str) -> None:
        if any(part in what for part in self._unreadable):
            raise UnavailableError(ErrorKind.STORE_UNAVAILABLE, f"{what}: cannot be read")

    def _objects(self, found: Sequence[ObjectInfo]) -> pa.Table:
        mtimes = [after(info.mtime, self._ahead_seconds) for info in found]
        return pa.table(
            {
                "address": pa.array([info.key for info in found], pa.string()),
                "size": pa.array([info.size_bytes for info in found], pa.int64()),
                "mtime": pa.array(mtimes, pa.int64()),
            }
        ).cast(OBJECTS_FILE.schema)

    async def _again(self, call: Callable[[], Awaitable[T]]) -> T:
        for _ in range(_TRIES - 1):
            try:
                return await call()
            except UnavailableError:
                await self._clock.sleep(0.1)
        return await call()


def open_job(
    server: SimServer, store: ObjectStore, clock: Clock, *, faults: StoreFaults | None = None
) -> JobWorld[Any]:
    """Return what a run works with."""
    reached = SimStore(store, clock, faults or StoreFaults())

    def tools(started: Started) -> Tools[Any]:
        tables = PolarsTables(reached, namespace=started.namespace, clock=clock, workers=InlineWorkers())
        return Tools(reached, tables)

    return JobWorld(server=server, open=tools, clock=clock)


def _token(started: Started) -> RunToken:
    return RunToken(run=started.run, token=started.token)
