"""A namespace outlives its database: another installation adopts it, whatever happens on the way."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakebed.catalog.adoption import Source
from lakebed.errors import (
    AlreadyExistsError,
    ConflictError,
    CorruptError,
    ErrorKind,
    FencedError,
    InvalidInputError,
    LakebedError,
    NotFoundError,
    PreconditionError,
)
from lakebed.format.adoption import REPORT, AdoptionReport, report_key
from lakebed.format.gc import CANDIDATES_FILE, SWEEP_STARTED, SweepStarted, encode_table, sweep_started_key
from lakebed.format.owners import Owner
from lakebed.kv.drivers.memory import MemoryKV
from lakebed.limits import ADOPTION_DEAD_SECONDS, CREATING_TIMEOUT_SECONDS, GRACE_SECONDS
from lakebed.model.gc import RunKind
from lakebed.model.ids import RepoName, RepoUid
from lakebed.model.repository import Repository
from lakebed.model.tasks import TaskState
from lakebed.objects.drivers.memory import MemoryBucket, MemoryObjects
from lakebed.objects.port import ObjectStore, PutMode
from lakebed.objects.settings import StoreSettings
from lakebed.refs.dump_files import list_dumps
from lakebed.refs.owners import claim, markers, newest_generation, put_deleting, read_owner
from lakebed.server.wiring import Wired
from lakebed.staging.appending import SegmentUse
from lakebed.testing.lake import COMMIT
from lakebed.testing.site import Site
from tests.unit.gc.world import DAY, OwnedClock

PLACE = "mem://bucket/lake"


class Crash(BaseException):
    """The process died here."""


@dataclass
class Life:
    """Of a process: it ends at a write, and nothing works after that."""

    ends_at: int = 10**9
    writes: int = 0
    writing: list[str] = field(default_factory=list)

    def step(self, what: str, *, write: bool) -> None:
        if self.writes >= self.ends_at:
            raise Crash
        if write:
            self.writes += 1
            self.writing.append(what)
            if self.writes >= self.ends_at:
                raise Crash


_WRITES = {"put", "delete", "swap", "set_rows", "delete_rows", "drop"}
_STREAMS = {"list", "scan", "stream"}


class Mortal:
    """A store of a process that may die."""

    def __init__(self, inner: Any, life: Life) -> None:
        self._inner = inner
        self._life = life

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._inner, name)
        if name in _STREAMS:

            async def stream(*args: Any, **kwargs: Any) -> Any:
                self._life.step(name, write=False)
                async for each in method(*args, **kwargs):
                    yield each

            return stream
        if not asyncio.iscoroutinefunction(method):
            return method

        async def call(*args: Any, **kwargs: Any) -> Any:
            self._life.step(f"{name} {args[:1]}", write=name in _WRITES)
            return await method(*args, **kwargs)

        return call


@dataclass
class Cloud:
    """What outlives installations: the storage, and time."""

    folder: Path
    clock: OwnedClock = field(default_factory=OwnedClock)
    objects: dict[str, ObjectStore] = field(default_factory=dict)

    def store(self) -> ObjectStore:
        return self.objects[PLACE]

    @asynccontextmanager
    async def installation(
        self, kv: MemoryKV | None = None, life: Life | None = None
    ) -> AsyncIterator[Wired]:
        """An installation with a database of its own."""
        kv = kv or MemoryKV(clock=self.clock)
        objects: dict[str, ObjectStore] = self.objects
        if life is not None:
            objects = {place: Mortal(store, life) for place, store in self.objects.items()}  # type: ignore[misc]
        site = Site(
            folder=self.folder,
            namespaces="mem://bucket/",
            settings=StoreSettings(),
            kv=kv if life is None else Mortal(kv, life),  # type: ignore[arg-type]
            in_memory=objects,
            staging_segments=SegmentUse.ALWAYS,
        )
        async with AsyncExitStack() as stack:
            opened = site.engine(clock=self.clock)
            _, wired = await opened.__aenter__()

            async def close() -> None:
                try:
                    await opened.__aexit__(None, None, None)
                except Crash:
                    assert life is not None

            stack.push_async_callback(close)
            yield wired


@pytest.fixture
def cloud(tmp_path: Path) -> Cloud:
    return Cloud(tmp_path)


async def fill(wired: Wired) -> Repository:
    """A repository with history, a tag, a hidden branch and something uncommitted."""
    catalog = wired.catalog
    repo = await catalog.repositories.create("lake", PLACE)
    for number in range(3):
        await catalog.objects.upload("lake", "main", f"a/{number}", str(number).encode())
        await catalog.commits.commit("lake", "main", COMMIT)
    await catalog.tags.create("lake", "v1", "main~1")
    await catalog.branches.create("lake", "dev", "main")
    await catalog.objects.upload("lake", "dev", "b", b"on dev")
    await catalog.commits.commit("lake", "dev", COMMIT)
    await wired.engine.automatic_dumps.dump(repo)
    await catalog.objects.upload("lake", "main", "lost", b"uncommitted")
    return repo


async def adopt(wired: Wired, namespace: str = PLACE, **options: Any) -> AdoptionReport:
    """Adopt, and return the report; raise what the task failed with."""
    name, task = await wired.catalog.adoptions.start(namespace, **options)
    while task.state is TaskState.RUNNING:
        await asyncio.sleep(0.001)  # Threads work meanwhile.
        task = await wired.catalog.adoptions.status(name, task.id)
    if task.state is not TaskState.DONE:
        raise ConflictError(ErrorKind(task.error_kind or "unreadable"), task.error)
    repo = await wired.engine.repo(name)
    return REPORT.open(await (await wired.engine.store_of(repo)).get(report_key(repo.uid)))


async def show(wired: Wired, ref: str, name: str = "lake") -> dict[str, bytes]:
    found = {}
    page = await wired.catalog.objects.list(name, ref, amount=1000)
    for path in page.rows.column("key").to_pylist():
        _, chunks = await wired.catalog.objects.read(name, ref, path)
        found[path] = b"".join([chunk async for chunk in chunks])
    return found


CONTENT = {"a/0": b"0", "a/1": b"1", "a/2": b"2"}


async def test_another_installation_has_everything_that_was_committed(cloud: Cloud) -> None:
    async with cloud.installation() as old:
        before = await fill(old)
        head = (await old.catalog.branches.get("lake", "main")).commit_id
    async with cloud.installation() as new:
        report = await adopt(new)
        assert await show(new, "main") == CONTENT
        assert await show(new, "dev") == {**CONTENT, "b": b"on dev"}
        assert set(await show(new, "v1")) == {"a/0", "a/1"}
        assert (await new.catalog.branches.get("lake", "main")).commit_id == head
        assert (report.branches, report.tags, report.commits, report.lost_refs) == (2, 1, 5, ())
        assert (report.missing, report.expired_commits, report.orphans.objects) == (0, 0, 1)
        repo = await new.engine.repo("lake")
        assert (repo.generation, repo.default_branch) == (1, "main")
        assert repo.uid != before.uid
        assert await markers(cloud.store()) == [repo.uid]
        page = await new.catalog.adoptions.orphans("lake", amount=10)
        assert [(row["size"], row["path"]) for row in page.rows] == [(11, "lost")], "staged in a segment"
        await new.catalog.objects.upload("lake", "main", "c", b"goes on")
        await new.catalog.commits.commit("lake", "main", COMMIT)
        for kind in RunKind:
            with pytest.raises(PreconditionError, match="adopted"):
                await new.catalog.gc.begin("lake", kind)
        cloud.clock.advance(7 * DAY)
        await new.catalog.gc.begin("lake", RunKind.MARK)
        assert await new.engine.automatic_dumps.dump(repo) is not None
    async with cloud.installation() as third:
        await adopt(third, name="again")
        assert set(await show(third, "main", "again")) == {*CONTENT, "c"}
        assert (await third.engine.repo("again")).generation == 2


async def test_the_old_installation_turns_read_only_and_deletes_nothing(cloud: Cloud) -> None:
    async with cloud.installation() as old, cloud.installation() as new:
        await fill(old)
        await adopt(new)
        # Until it looks, it takes writes that nobody else will see.
        await old.catalog.objects.upload("lake", "main", "late", b"1")
        await old.namespace_watch.round(cloud.clock.now(), seconds=60)
        with pytest.raises(FencedError, match=r"taken over .* with --force, without --with-data"):
            await old.catalog.objects.upload("lake", "main", "late", b"2")
        assert "late" in await show(old, "main"), "it can still be read"
        with pytest.raises(FencedError):
            await old.catalog.gc.begin("lake", RunKind.SWEEP)
        await old.catalog.repositories.delete("lake", force=True)
        cloud.clock.advance(2 * GRACE_SECONDS)
        await old.cleaner.clean_once()
        assert await show(new, "main") == CONTENT
        assert len(await markers(cloud.store())) == 1


async def test_a_death_at_any_step_leaves_something_that_the_same_command_goes_on_with(
    tmp_path: Path,
) -> None:
    whole = Cloud(tmp_path)
    async with whole.installation() as old:
        await fill(old)
    before = dict(whole.store()._bucket.objects)  # type: ignore[attr-defined]
    for at in range(1, 60):
        cloud, life = Cloud(tmp_path, clock=whole.clock), Life(ends_at=at)
        cloud.objects[PLACE] = MemoryObjects(bucket=MemoryBucket(objects=dict(before)), clock=whole.clock)
        kv = MemoryKV(clock=cloud.clock)
        died = False
        async with cloud.installation(kv, life) as new:
            try:
                await asyncio.wait_for(adopt(new), 60)
            except Crash:
                died = True
        left = cloud.store()._bucket.objects  # type: ignore[attr-defined]
        kept = {key for key in before if not key.startswith("_lakebed/owner")}
        assert kept <= set(left), "an adoption deletes nothing"
        if not died and life.writes < at:
            break
        cloud.clock.advance(ADOPTION_DEAD_SECONDS + 1)
        if at % 3 == 0:
            # Nobody repeated it for so long that the cleaner has given it up.
            cloud.clock.advance(CREATING_TIMEOUT_SECONDS + 2 * GRACE_SECONDS)
        async with cloud.installation(kv) as again:
            if at % 3 == 0:
                for _ in range(2):
                    await again.cleaner.clean_once()
                    cloud.clock.advance(2 * GRACE_SECONDS)
            if not (await again.engine.repositories.list()).results:
                await adopt(again)
            assert await show(again, "main") == CONTENT
            assert await show(again, "dev") == {**CONTENT, "b": b"on dev"}
            repo = await again.engine.repo("lake")
            assert await newest_generation(cloud.store()) == repo.generation
            assert (await read_owner(cloud.store(), repo.generation)).uid == repo.uid
    else:
        pytest.fail("an adoption has more steps than the test knows")
    assert at > 10, "the steps were counted"


async def test_two_installations_that_adopt_at_once_do_not_both_get_it(cloud: Cloud) -> None:
    async with cloud.installation() as old:
        await fill(old)
    async with cloud.installation() as one, cloud.installation() as two:
        outcomes = await asyncio.gather(adopt(one), adopt(two), return_exceptions=True)
        owner = await read_owner(cloud.store(), await newest_generation(cloud.store()))
        live = []
        for wired, outcome in zip((one, two), outcomes, strict=True):
            if isinstance(outcome, AdoptionReport):
                repo = await wired.engine.repo("lake")
                await wired.namespace_watch.round(cloud.clock.now(), seconds=60)
                if not (await wired.engine.repo("lake")).taken_over_by:
                    live.append(repo.uid)
        assert live == [owner.uid]


async def test_an_older_dump_expires_what_a_sweep_may_be_deleting(cloud: Cloud) -> None:
    async with cloud.installation() as old:
        repo = await fill(old)
        (dump,) = await list_dumps(cloud.store(), repo.uid)
        doomed = (await old.catalog.objects.stat("lake", "dev", "b")).address
    table = pa.table({"address": [doomed], "size": [6], "mtime": [0], "first_marked_at": [0]})
    await cloud.store().put("_lakebed/gc/m1/marked/00000000.parquet", encode_table(CANDIDATES_FILE, table))
    intent = SweepStarted(uid=repo.uid, mark="m1", run="r1", at=cloud.clock.now())
    await cloud.store().put(sweep_started_key("m1"), SWEEP_STARTED.seal(intent))
    async with cloud.installation() as new:
        report = await adopt(new, source=Source(name=str(dump)))
        assert report.expired_commits == 1
        assert [(ref.kind, ref.name) for ref in report.lost_refs] == [("branch", "dev")]
        assert await show(new, "main") == CONTENT
        with pytest.raises(NotFoundError, match="expired"):
            await new.catalog.branches.create("lake", "dev", report.lost_refs[0].commit_id)


async def test_what_is_missing_is_named(cloud: Cloud) -> None:
    async with cloud.installation() as old:
        await fill(old)
        gone = (await old.catalog.objects.stat("lake", "main", "a/1")).address
    await cloud.store().delete([gone])
    async with cloud.installation() as new:
        report = await adopt(new)
    assert report.missing == 1
    assert gone in report.missing_listed[0].what
    assert "path a/1" in report.missing_listed[0].where


async def test_a_dump_that_somebody_asked_for_is_adopted_by_its_manifest(cloud: Cloud) -> None:
    async with cloud.installation() as old:
        await fill(old)
        manual = await old.catalog.dumps.dump("lake")
        for name in await list_dumps(cloud.store()):
            await cloud.store().delete([name.key])
    async with cloud.installation() as new:
        with pytest.raises(NotFoundError, match="manifest"):
            await adopt(new)
        with pytest.raises(InvalidInputError, match="name"):
            await adopt(new, source=Source(manual=manual))
        assert await newest_generation(cloud.store()) == 0, "nobody was fenced off for nothing"
        await adopt(new, name="lake", source=Source(manual=manual))
        assert await show(new, "main") == CONTENT


class Careless(MemoryObjects):
    """A store that ignores conditions."""

    async def put(self, key: str, data: bytes, *, when: Any = PutMode.CREATE) -> Any:
        return await super().put(key, data, when=PutMode.OVERWRITE)


async def _being_deleted(cloud: Cloud, _old: Wired) -> None:
    await put_deleting(cloud.store(), RepoUid("u"))


async def _careless(cloud: Cloud, _old: Wired) -> None:
    careless = Careless()
    careless._bucket = cloud.store()._bucket  # type: ignore[attr-defined]
    cloud.objects[PLACE] = careless


async def _damaged(cloud: Cloud, _old: Wired) -> None:
    (dump,) = await list_dumps(cloud.store())
    await cloud.store().put(dump.key, b"nonsense", when=PutMode.OVERWRITE)


@pytest.mark.parametrize(
    ("spoil", "error", "says"),
    [
        (_being_deleted, InvalidInputError, "being deleted"),
        (_careless, InvalidInputError, "If-None-Match"),
        (_damaged, CorruptError, "does not parse"),
    ],
)
async def test_what_cannot_be_adopted_is_refused_before_anything_changes(
    cloud: Cloud, spoil: Callable[..., Any], error: type[LakebedError], says: str
) -> None:
    async with cloud.installation() as old:
        await fill(old)
        await spoil(cloud, old)
    before = set(cloud.store()._bucket.objects)  # type: ignore[attr-defined]
    async with cloud.installation() as new:
        with pytest.raises(error, match=says):
            await adopt(new)
        assert [found async for found in new.engine.repositories.scan()] == []
    assert set(cloud.store()._bucket.objects) == before  # type: ignore[attr-defined]


async def test_a_namespace_of_this_installation_is_not_adopted(cloud: Cloud) -> None:
    async with cloud.installation() as wired:
        await fill(wired)
        with pytest.raises(AlreadyExistsError):
            await adopt(wired)
        with pytest.raises(ConflictError, match="in use") as caught:
            await adopt(wired, name="other")
        assert caught.value.kind is ErrorKind.NAMESPACE_IN_USE
        assert await newest_generation(cloud.store()) == 0
        with pytest.raises(NotFoundError, match="not adopted"):
            await wired.catalog.adoptions.orphans("lake", amount=1)


async def test_an_adoption_under_way_is_not_begun_a_second_time(cloud: Cloud) -> None:
    async with cloud.installation() as old:
        await fill(old)
    async with cloud.installation() as new:
        await new.catalog.adoptions.start(PLACE)
        with pytest.raises(AlreadyExistsError, match="another process"):
            await new.catalog.adoptions.start(PLACE)


async def test_a_later_owner_between_claim_and_live_stops_the_adoption(cloud: Cloud) -> None:
    async with cloud.installation() as old:
        await fill(old)
    async with cloud.installation() as new:
        real = new.engine.gc.discard_restored

        async def overtaken(repo: Repository) -> None:
            await real(repo)
            newest = await newest_generation(cloud.store())
            if newest == 1:
                await claim(
                    cloud.store(),
                    Owner(
                        generation=2,
                        uid=RepoUid("x"),
                        repository=RepoName("x"),
                        installation="third",
                        at=cloud.clock.now(),
                    ),
                )

        new.engine.gc.discard_restored = overtaken  # type: ignore[method-assign]
        with pytest.raises(ConflictError, match="third") as caught:
            await adopt(new)
        assert caught.value.kind is ErrorKind.REPO_TAKEN_OVER
