"""Clients of a repository in which garbage is collected: they upload in every way there is, and some of them collect."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from msgspec.structs import replace

from lakebed.auth.caller import SYSTEM
from lakebed.catalog.copies import Copies, CopySource, CopyTarget
from lakebed.catalog.links import Linked, Links
from lakebed.catalog.settings import Settings
from lakebed.errors import ConflictError, ErrorKind, NotFoundError
from lakebed.limits import GRACE_SECONDS
from lakebed.model.entries import Entry, Tombstone
from lakebed.model.gc_rules import GcRules
from lakebed.model.ids import BranchName, CommitId, Path, TagName
from lakebed.spark.gc.decide import Options
from lakebed.spark.gc.protocol import mark, sweep
from lakebed.testing.simulation.clients import PATHS, WORK, Client, Lake
from lakebed.testing.simulation.clock import SimClock
from lakebed.testing.simulation.gc_job import GC_PART, Line, SimServer, open_job
from lakebed.testing.simulation.history import Op, Outcome
from lakebed.testing.simulation.loop import PART
from lakebed.testing.simulation.process import SimProcess
from lakebed.testing.simulation.record_laws import LawBrokenError
from lakebed.versioning.commit import CommitRequest

TAGS = ("v1", "v2")

# Long before there was a lakebed: clients set the dates of their commits.
_LONG_AGO = 1_000_000_000
# The database's clock may jump ahead and shorten every grace.
_SURE_SECONDS = GRACE_SECONDS - 60.0


@dataclass(frozen=True, slots=True)
class Address:
    """One that was given out, with an object at it."""

    address: str
    branch: str
    path: str


@dataclass(slots=True)
class CollectedLake(Lake):
    """What the clients of such a repository share."""

    servers: Callable[[], Sequence[SimProcess]] = tuple
    """The processes that a collector may ask."""
    ages: tuple[float, ...] = (0.0,)
    """How old an object must be for a run, in seconds: one of these."""
    link_seconds: float = 24 * 3600.0
    """How long an address is good for, as collectors are told."""
    rules: tuple[GcRules | None, ...] = (None, GcRules(default_days=0))
    clean: float = 0.4
    """How many of the runs start from nothing."""
    lost: float = 0.005
    """How many requests of a collector are lost on their way to a server, and how many replies."""
    addresses: list[Address] = field(default_factory=list)
    compacting: set[str] = field(default_factory=set)
    """Processes whose worker is at work."""


@dataclass(slots=True)
class GcClient(Client):
    """Somebody who calls one process, or collects garbage from there."""

    lake: CollectedLake

    async def collect(self) -> Op:
        """Collect garbage: mark, or sweep, or both."""
        lake, chance = self.lake, self.chance
        options = Options(
            min_age_seconds=chance.pick(lake.ages),
            grace_seconds=GRACE_SECONDS,
            clean=chance.happens(lake.clean),
            allow_large=True,
        )
        steps = chance.weighted([((mark,), 1.0), ((sweep,), 1.0), ((mark, sweep), 3.0)])
        line = Line(loop=lake.world.loop, chance=chance.fork("line"), servers=lake.servers, lost=lake.lost)
        # A few are so wrong that a run must refuse to go on.
        clock = SimClock(lake.world.loop, skew_seconds=chance.pick([0.0, 100.0, -100.0, 100.0, -1000.0]))

        async def call() -> None:
            server = SimServer(line, lake.repo, holder=self.process.name, link_seconds=lake.link_seconds)
            job = open_job(server, await self.process.engine.store_of(lake.repo), clock)
            part = PART.set(GC_PART)
            try:
                for step in steps:
                    await self._in_turn(lambda step=step: step(job, options))  # type: ignore[misc]
            finally:
                PART.reset(part)

        return await self._ask("collect", call, min_age=options.min_age_seconds, clean=options.clean)

    async def _in_turn(self, run: Callable[[], Awaitable[object]]) -> None:
        """Run when no other run does, if that is soon."""
        for _ in range(3):
            try:
                await run()
            except ConflictError as error:
                if error.kind is not ErrorKind.GC_RUNNING:
                    raise
                self.lake.world.met["collector waited"] += 1
                await self.lake.world.sleep(self.chance.between(1.0, 60.0))
            else:
                return
        await run()

    async def issue(self) -> Op:
        """Ask for an address, and write an object there."""
        branch, path = self._branch(), self.chance.pick(PATHS)

        async def call() -> None:
            engine = self.process.engine
            issued = await Links(engine, SYSTEM).issue(self.lake.repo.name, branch, path)
            address = issued.address.removeprefix(f"{self.lake.repo.namespace}/")
            await (await engine.store_of(self.lake.repo)).put(address, b"!")
            self.lake.addresses.append(Address(issued.address, branch, path))

        return await self._ask("issue", call, branch=branch)

    async def link(self) -> Op | None:
        """Link what was written to an address, perhaps not for the first time."""
        lake = self.lake
        if not lake.addresses:
            return None
        given = self.chance.pick(lake.addresses[-5:])
        checksum = lake.next_checksum()
        linked = Linked(address=given.address, checksum=checksum, size_bytes=1, content_type="text/plain")

        async def call() -> None:
            await Links(self.process.engine, SYSTEM).link(lake.repo.name, given.branch, given.path, linked)

        op = await self._write(given.branch, given.path, checksum, call)
        if op.outcome is Outcome.DONE:
            lake.world.met["linked"] += 1
        return op

    async def copy(self) -> Op:
        """Give an object another path, without moving a byte."""
        return await self._copy(self._ref(), self.chance.pick(PATHS))

    async def move(self) -> None:
        """Give an object another path, and take the one it had."""
        branch, path = self._branch(), self.chance.pick(PATHS)
        op = await self._copy(branch, path)
        if op.outcome is Outcome.DONE:
            call = partial(
                self.process.engine.parts.staging.write,
                self.lake.repo,
                BranchName(branch),
                [Tombstone(path=Path(path))],
            )
            await self._ask("delete", call, branch=branch, paths=[path])

    async def read(self) -> Op:
        """Find an object, and fetch its bytes some time later, within a grace."""
        ref, path = self._ref(), self.chance.pick(PATHS)
        seconds = self.chance.pick([0.0, 10.0, 0.5 * _SURE_SECONDS, 0.95 * _SURE_SECONDS])
        loop = self.lake.world.loop

        async def call() -> None:
            engine, began = self.process.engine, loop.time()
            found = await engine.view.find(
                self.lake.repo, await engine.source(self.lake.repo, ref), Path(path)
            )
            if found is None:
                return
            store = await engine.store_of(self.lake.repo)
            await self.lake.world.sleep(seconds)
            try:
                await store.get(found.address)
            except NotFoundError as error:
                if loop.time() - began < _SURE_SECONDS:
                    raise LawBrokenError(f"{path} of {ref} has lost its bytes: {error}") from error

        return await self._ask("read", call, ref=ref, path=path, seconds=seconds)

    async def create_tag(self) -> Op:
        """Give a commit a name."""
        tag, source = self.chance.pick(TAGS), self._some_commit()
        call = partial(self.process.engine.tags.create, self.lake.repo, TagName(tag), source)
        return await self._ask("create_tag", call, branch=tag, source=source)

    async def delete_tag(self) -> Op:
        """Take a name away."""
        tag = self.chance.pick(TAGS)
        call = partial(self.process.engine.tags.delete, self.lake.repo, TagName(tag))
        return await self._ask("delete_tag", call, branch=tag)

    async def set_rules(self) -> Op:
        """Keep things for longer, or not at all."""
        rules, settings = self.chance.pick(self.lake.rules), Settings(self.process.engine, SYSTEM)
        name = self.lake.repo.name
        call: Callable[[], Awaitable[None]] = partial(settings.delete_gc_rules, name)
        if rules is not None:
            call = partial(settings.set_gc_rules, name, rules)
        return await self._ask("set_rules", call, rules=rules)

    async def compact(self) -> None:
        """Let the process's worker run for a while, beside everything else."""
        worker, compacting = self.process.compactor, self.lake.compacting
        if worker is None or self.process.name in compacting:
            return
        compacting.add(self.process.name)

        async def work() -> None:
            for _ in range(5):
                await worker.round()
                await worker.idle()
                await self.lake.world.sleep(1.5)
            compacting.discard(self.process.name)

        self.process.spawn(work(), part="worker")

    async def _copy(self, ref: str, path: str) -> Op:
        lake, branch, target = self.lake, self._branch(), self.chance.pick(PATHS)
        checksum = lake.next_checksum()

        def named(entry: Entry) -> Entry:
            # Every write has a checksum of its own here, by which the laws know it.
            return replace(entry, checksum=checksum)

        async def call() -> None:
            await Copies(self.process.engine, SYSTEM).copy(
                CopySource(repo_name=lake.repo.name, ref=ref, path=path),
                CopyTarget(repo_name=lake.repo.name, branch=branch, path=target),
                change=named,
            )

        op = await self._write(branch, target, checksum, call)
        if op.outcome is Outcome.DONE:
            lake.world.met["copied"] += 1
        return op

    async def _write(self, branch: str, path: str, checksum: str, call: Callable[[], Awaitable[None]]) -> Op:
        return await self._ask("write", call, branch=branch, contents={path: checksum}, condition=None)

    async def _ask(
        self, kind: str, call: Callable[[], Awaitable[Any]], *, branch: str = "", **args: Any
    ) -> Op:
        # Whatever commit somebody remembers, it may have expired by now.
        return await Client._ask(self, kind, call, branch=branch, may_be_missing=True, **args)

    def _ref(self) -> str:
        """Return a branch, a tag or a commit: not one that was let go, whose files may be gone."""
        commit = self.lake.world.truth.commit(self.lake.partition, self._some_commit())
        return self.chance.weighted(
            [
                (self._branch(), 6.0),
                (self.chance.pick(TAGS), 2.0),
                (commit.id, 0.0 if commit.condemned_by else 2.0),
            ]
        )

    def _some_commit(self) -> CommitId:
        """Return one that has been a head lately, and perhaps is about to expire."""
        found = [Client._some_commit(self) for _ in range(3)]
        return max(found, key=lambda each: self.lake.world.truth.commit(self.lake.partition, each).created_at)

    def _request(self, *, allow_empty: float = 0.0) -> CommitRequest:
        request = Client._request(self, allow_empty=allow_empty)
        return CommitRequest(
            committer=request.committer,
            message=request.message,
            date=self.chance.pick([None, _LONG_AGO]),
            allow_empty=request.allow_empty,
        )


GC_WORK: Mapping[str, Callable[[GcClient], Awaitable[object]]] = {
    **WORK,
    **{
        work.__name__: work
        for work in (
            GcClient.collect,
            GcClient.issue,
            GcClient.link,
            GcClient.copy,
            GcClient.move,
            GcClient.read,
            GcClient.create_tag,
            GcClient.delete_tag,
            GcClient.set_rules,
            GcClient.compact,
        )
    },
}
