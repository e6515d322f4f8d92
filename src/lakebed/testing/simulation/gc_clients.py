"""Clients of a repository in which garbage is collected: they upload in every way there is, and some of them collect."""

import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import msgspec

from lakebed.auth.caller import SYSTEM
from lakebed.catalog.copies import Copies, CopySource, CopyTarget
from lakebed.catalog.link_tokens import LinkTokens
from lakebed.catalog.links import Linked, Links
from lakebed.catalog.objects import Attributes
from lakebed.catalog.part_uploads import PartUploads, UploadOf
from lakebed.catalog.settings import Settings
from lakebed.env.clock import after
from lakebed.errors import ConflictError, ErrorKind, NotFoundError
from lakebed.format.gc import QUARANTINE_FOLDER
from lakebed.format.layout import DATA_FOLDER, METARANGES_FOLDER, RANGES_FOLDER
from lakebed.format.links import decode_link
from lakebed.limits import GRACE_SECONDS, LINK_LIFETIME_SECONDS
from lakebed.model.entries import Entry, Tombstone
from lakebed.model.gc_rules import GcRules
from lakebed.model.ids import BranchName, CommitId, Path, TagName
from lakebed.model.links import LinkToken
from lakebed.refs.keys import link_key
from lakebed.spark.gc.decide import Options
from lakebed.spark.gc.protocol import World as JobWorld
from lakebed.spark.gc.protocol import mark, restore, sweep
from lakebed.testing.simulation.chance import Chance
from lakebed.testing.simulation.clients import PATHS, WORK, Client, Lake
from lakebed.testing.simulation.clock import SimClock
from lakebed.testing.simulation.gc_job import GC_PART, Line, SimServer, StoreFaults, open_job
from lakebed.testing.simulation.gc_watch import GcWatch
from lakebed.testing.simulation.history import Op, Outcome
from lakebed.testing.simulation.loop import PART
from lakebed.testing.simulation.process import SimProcess
from lakebed.testing.simulation.record_laws import LawBrokenError
from lakebed.versioning.commit import CommitRequest

TAGS = ("v1", "v2", "v3", "v4")

# What a collector reads: of the ranges, half.
_READ = (
    (DATA_FOLDER,),
    (METARANGES_FOLDER,),
    ("/uncommitted/",),
    ("/state/",),
    tuple(f"{RANGES_FOLDER}{each}" for each in "02468ace"),
)
# Long before there was a lakebed: clients set the dates of their commits.
_LONG_AGO = 1_000_000_000
# The database's clock may jump ahead and shorten every grace.
_JUMP_SECONDS = 60.0
_SURE_SECONDS = GRACE_SECONDS - _JUMP_SECONDS


@dataclass(frozen=True, slots=True)
class Address:
    """One that was given out, with an object at it."""

    address: str
    branch: str
    path: str


@dataclass(frozen=True, slots=True)
class Upload:
    """One in parts, all of which are there."""

    of: UploadOf
    parts: tuple[tuple[int, str], ...]
    checksum: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Manners:
    """What some collectors do that others do not."""

    quarantine: float = 0.0
    """How many put aside what they sweep."""
    quarantine_days: float = 0.005
    careful: float = 0.0
    """How many refuse to delete a large share."""
    takeover: float = 0.0
    """How many take the lease whoever has it."""
    store_ahead: tuple[float, ...] = (0.0,)
    """How far the store's clock is ahead, in seconds: one of these."""
    unreadable: float = 0.0
    """How many cannot read something, however often they try."""


@dataclass(slots=True)
class CollectedLake(Lake):
    """What the clients of such a repository share."""

    servers: Callable[[], Sequence[SimProcess]] = tuple
    """The processes that a collector may ask."""
    ages: tuple[float, ...] = (0.0,)
    """How old an object must be for a run, in seconds: one of these."""
    link_seconds: float = 24 * 3600.0
    """How long an address is good for, as collectors are told."""
    watch: GcWatch | None = None
    manners: Manners = Manners()
    uploads: list[Upload] = field(default_factory=list)
    linked: list[tuple[Address, str]] = field(default_factory=list)
    """Addresses that were linked, or may have been, with the checksums."""
    completed: list[Upload] = field(default_factory=list)
    """Uploads that were completed, or may have been."""
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
        job_chance = chance.fork("line")
        # A few are so wrong that a run must refuse to go on.
        skew = chance.pick([0.0, 100.0, -100.0, 100.0, -1000.0])
        manners = chance.fork(f"manners {lake.world.loop.time()}")
        if manners.happens(lake.manners.quarantine):
            options = replace(options, quarantine_days=lake.manners.quarantine_days)
        if manners.happens(lake.manners.careful):
            options = replace(options, allow_large=False)
        ahead = manners.pick(lake.manners.store_ahead)
        takeover = manners.happens(lake.manners.takeover)
        unreadable = manners.pick(_READ) if manners.happens(lake.manners.unreadable) else ()

        async def call() -> None:
            faults = StoreFaults(ahead_seconds=ahead, unreadable=unreadable)
            job = await self._job(job_chance, faults, skew=skew, takeover=takeover)
            for step in steps:
                await self._in_turn(lambda step=step: step(job, options))  # type: ignore[misc]

        return await self._collect(
            "collect",
            call,
            min_age=options.min_age_seconds,
            clean=options.clean,
            quarantine=options.quarantine_days is not None,
            careful=not options.allow_large,
            apart=max(abs(skew), abs(ahead), abs(skew - ahead)),
        )

    async def mark_only(self, *, clean: bool) -> Op:
        """Mark, whatever its age, and delete nothing."""
        options = Options(min_age_seconds=0.0, grace_seconds=GRACE_SECONDS, clean=clean, allow_large=True)

        async def call() -> None:
            await mark(await self._job(self.chance, StoreFaults()), options)

        return await self._collect("collect", call, min_age=0.0, clean=clean)

    async def restore_run(self) -> Op | None:
        """Put back what some sweep has put aside."""
        lake = self.lake
        documents = [
            key.removeprefix(QUARANTINE_FOLDER).removesuffix(".json")
            for key in lake.world.buckets[lake.repo.namespace].keys_in_order()
            if key.startswith(QUARANTINE_FOLDER) and key.endswith(".json")
        ]
        if not documents:
            return None
        run, job_chance = self.chance.pick(documents), self.chance.fork("line")

        async def call() -> None:
            job = await self._job(job_chance, StoreFaults())
            await self._in_turn(lambda: restore(job, run))

        return await self._collect("restore_run", call, run=run)

    async def _job(
        self, chance: Chance, faults: StoreFaults, *, skew: float = 0.0, takeover: bool = False
    ) -> JobWorld[Any]:
        lake = self.lake
        line = Line(
            loop=lake.world.loop, chance=chance, servers=lake.servers, lost=lake.lost, met=lake.world.met
        )
        server = SimServer(
            line, lake.repo, holder=self.process.name, link_seconds=lake.link_seconds, takeover=takeover
        )
        clock = SimClock(lake.world.loop, skew_seconds=skew)
        return open_job(server, await self.process.engine.store_of(lake.repo), clock, faults=faults)

    async def _collect(self, kind: str, call: Callable[[], Awaitable[None]], **args: Any) -> Op:
        async def collect() -> None:
            part = PART.set(GC_PART)
            try:
                await call()
            finally:
                PART.reset(part)

        op = await self._ask(kind, collect, **args)
        if self.lake.watch is not None:
            self.lake.watch.over(op)
        return op

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

    async def issue_long_ago(self) -> Op:
        """Write an object to an address that was given out almost a day ago."""
        lake, branch, path = self.lake, self._branch(), self.chance.pick(PATHS)
        left = self.chance.between(10.0, 0.5 * GRACE_SECONDS)

        async def call() -> None:
            engine, now = self.process.engine, await self.process.engine.parts.kv.now()
            address = engine.slices.next_address(now)
            await LinkTokens(engine).give_out(
                lake.repo,
                BranchName(branch),
                Path(path),
                address=address,
                now=after(now, left - LINK_LIFETIME_SECONDS),
            )
            await (await engine.store_of(lake.repo)).put(address, b"!")
            lake.addresses.append(Address(f"{lake.repo.namespace}/{address}", branch, path))

        return await self._ask("issue", call, branch=branch, left=left)

    async def link(self) -> Op | None:
        """Link what was written to an address, perhaps not for the first time, perhaps too late."""
        lake = self.lake
        if not lake.addresses:
            return None
        given = self.chance.pick(lake.addresses[-5:])
        checksum = lake.next_checksum()
        linked = Linked(address=given.address, checksum=checksum, size_bytes=1, content_type="text/plain")
        token = self._token(given)
        too_late = token is not None and after(token.expires_at, _JUMP_SECONDS) < lake.world.clock.now()

        async def call() -> None:
            await Links(self.process.engine, SYSTEM).link(lake.repo.name, given.branch, given.path, linked)

        op = await self._write(given.branch, given.path, checksum, call)
        if op.outcome is Outcome.DONE:
            if too_late or (token is not None and token.used_at is not None):
                raise LawBrokenError(f"{given} was linked after {token}")
            lake.world.met["linked"] += 1
        if op.outcome is not Outcome.REFUSED:
            lake.linked.append((given, checksum))
        return op

    async def relink(self) -> Op | None:
        """Link what was linked, or may have been, as a client does that has lost the answer."""
        lake = self.lake
        if not lake.linked:
            return None
        given, checksum = self.chance.pick(lake.linked[-5:])
        linked = Linked(address=given.address, checksum=checksum, size_bytes=1, content_type="text/plain")

        async def call() -> None:
            await Links(self.process.engine, SYSTEM).link(lake.repo.name, given.branch, given.path, linked)

        return await self._repeat("relink", given.branch, given.path, checksum, call)

    async def recomplete(self) -> Op | None:
        """Complete an upload that was completed, or may have been."""
        lake = self.lake
        if not lake.completed:
            return None
        upload = self.chance.pick(lake.completed[-5:])

        async def call() -> None:
            await PartUploads(self.process.engine, SYSTEM).complete(upload.of, upload.parts)

        return await self._repeat("recomplete", upload.of.branch, upload.of.path, upload.checksum, call)

    async def _repeat(
        self, kind: str, branch: str, path: str, checksum: str, call: Callable[[], Awaitable[None]]
    ) -> Op:
        """Call again. What it stages counts as the first call's doing, which may do one thing and only once."""
        first = self.lake.world.history.by_checksum[checksum]
        op = await self._ask(kind, call, branch=branch, path=path)
        if op.outcome is Outcome.DONE and not first.effects:
            raise LawBrokenError(f"{op} was acknowledged, and {path} never got {checksum}")
        return op

    def _token(self, given: Address) -> LinkToken | None:
        lake = self.lake
        key = link_key(given.address.removeprefix(f"{lake.repo.namespace}/"))
        value = lake.world.truth.partitions[lake.partition].get(key)
        return decode_link(value) if value is not None else None

    async def begin_upload(self) -> Op:
        """Send an object in parts, and say nothing yet."""
        lake, branch, path = self.lake, self._branch(), self.chance.pick(PATHS)
        # Its bytes are nobody else's, so its checksum names it.
        data = lake.next_checksum().encode()

        async def call() -> None:
            uploads = PartUploads(self.process.engine, SYSTEM)
            begun = await uploads.begin(lake.repo.name, branch, path, Attributes())
            of = UploadOf(repo_name=lake.repo.name, branch=branch, path=path, id=begun.id)
            part = await uploads.put(of, 1, _one(data), size_bytes=len(data))
            whole = hashlib.md5(bytes.fromhex(part.md5), usedforsecurity=False).hexdigest()
            lake.uploads.append(Upload(of, ((1, part.md5),), f"{whole}-1"))
            lake.world.met["upload begun"] += 1

        return await self._ask("begin_upload", call, branch=branch)

    async def complete_upload(self) -> Op | None:
        """Make an object of its parts, and stage it."""
        lake = self.lake
        if not lake.uploads:
            return None
        upload = lake.uploads.pop(self.chance.below(len(lake.uploads)))

        async def call() -> None:
            await PartUploads(self.process.engine, SYSTEM).complete(upload.of, upload.parts)

        op = await self._write(upload.of.branch, upload.of.path, upload.checksum, call)
        if op.outcome is Outcome.DONE:
            lake.world.met["upload completed"] += 1
        if op.outcome is not Outcome.REFUSED:
            lake.completed.append(upload)
        return op

    async def give_upload_up(self) -> Op | None:
        """Let an object in parts be."""
        lake = self.lake
        if not lake.uploads:
            return None
        upload = lake.uploads.pop(self.chance.below(len(lake.uploads)))
        call = partial(PartUploads(self.process.engine, SYSTEM).abort, upload.of)
        op = await self._ask("give_upload_up", call, branch=upload.of.branch)
        if op.outcome is Outcome.DONE:
            lake.world.met["upload given up"] += 1
        return op

    async def copy(self) -> Op:
        """Give an object another path, without moving a byte."""
        return await self._copy(self._ref(), self.chance.pick(PATHS))

    async def move(self) -> None:
        """Give an object another path, and take the one it had."""
        branch = self._branch()
        shown = self.lake.world.truth.timeline(self.lake.partition, branch).last.view
        path = self.chance.pick(sorted(shown) if shown else PATHS)
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
            return msgspec.structs.replace(entry, checksum=checksum)

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
        if self.chance.happens(0.4) and (doomed := self._doomed()):
            return self.chance.pick(doomed)
        found = [Client._some_commit(self) for _ in range(3)]
        return max(found, key=lambda each: self.lake.world.truth.commit(self.lake.partition, each).created_at)

    def _old_commit(self) -> CommitId:
        """Return any that was a head, or one that was a head lately and may be condemned at this moment."""
        if self.chance.happens(0.5):
            return Client._some_commit(self)
        commits = self.lake.world.truth.commits(self.lake.partition)
        return self.chance.pick(sorted(commits, key=lambda each: each.created_at)[-6:]).id

    def _doomed(self) -> list[CommitId]:
        """Return the commits that only the rules keep, and no mark has condemned yet."""
        heads = {self.head(branch) for branch in self.lake.branches}
        commits = self.lake.world.truth.commits(self.lake.partition)
        return [each.id for each in commits if not each.condemned_by and each.id not in heads]

    def _request(self, *, allow_empty: float = 0.0) -> CommitRequest:
        request = Client._request(self, allow_empty=allow_empty)
        return CommitRequest(
            committer=request.committer,
            message=request.message,
            date=self.chance.pick([None, _LONG_AGO]),
            allow_empty=request.allow_empty,
        )


async def _one(data: bytes) -> AsyncIterator[bytes]:
    yield data


GC_WORK: Mapping[str, Callable[[GcClient], Awaitable[object]]] = {
    **WORK,
    **{
        work.__name__: work
        for work in (
            GcClient.collect,
            GcClient.issue,
            GcClient.issue_long_ago,
            GcClient.link,
            GcClient.relink,
            GcClient.begin_upload,
            GcClient.complete_upload,
            GcClient.recomplete,
            GcClient.give_upload_up,
            GcClient.restore_run,
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
