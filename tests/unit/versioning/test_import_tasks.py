"""Imports in the background: how they go, how they are stopped, and what is known of one whose process died."""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path

import pytest

from lakebed.catalog import tasks
from lakebed.env.clock import SECOND, Instant
from lakebed.env.work import InlineWorkers
from lakebed.errors import ConflictError, ErrorKind, NotFoundError, UnavailableError
from lakebed.format.tasks import decode_task, encode_task
from lakebed.kv.drivers.memory import MemoryKV
from lakebed.kv.port import Expect
from lakebed.limits import TASK_DEAD_SECONDS, TASK_LIFETIME_SECONDS
from lakebed.model.ids import BranchName, Nonce
from lakebed.model.tasks import Task, TaskState
from lakebed.refs.keys import TASKS_PREFIX, task_key
from lakebed.testing.lake import COMMIT, Lake
from lakebed.testing.site import Site, local_settings
from lakebed.versioning import local_files
from lakebed.versioning.importing import ImportKind, ImportPath


class OwnTime:
    """Stands still until the test moves it; waiting takes no time."""

    def __init__(self) -> None:
        self.seconds = 1_700_000_000.0

    def now(self) -> Instant:
        return Instant(round(self.seconds * SECOND))

    def monotonic(self) -> float:
        return self.seconds

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(0)


class ShakyKV(MemoryKV):
    """Does not answer while `down` says so."""

    down: Callable[[bytes, bytes], bool] = staticmethod(lambda _key, _value: False)

    async def swap(self, partition: str, key: bytes, value: bytes, **kwargs):
        if self.down(key, value):
            raise UnavailableError(ErrorKind.STORE_UNAVAILABLE, "the store does not answer")
        return await super().swap(partition, key, value, **kwargs)


class Gate(InlineWorkers):
    """Holds every chunk of files until it is opened."""

    def __init__(self) -> None:
        self.reached = asyncio.Event()
        self.opened = asyncio.Event()

    async def run(self, function, /, *args, **kwargs):
        self.reached.set()
        await self.opened.wait()
        return function(*args, **kwargs)


@pytest.fixture
def clock() -> OwnTime:
    return OwnTime()


@pytest.fixture
def kv(clock: OwnTime) -> ShakyKV:
    return ShakyKV(clock=clock)


@pytest.fixture
def gate() -> Gate:
    return Gate()


@pytest.fixture
def site(tmp_path: Path, kv: ShakyKV) -> Site:
    return Site(
        tmp_path,
        "local://",
        local_settings(tmp_path),
        kv=kv,
        import_prefixes=(f"local://{tmp_path}/outside",),
    )


@pytest.fixture
async def lake(
    site: Site, clock: OwnTime, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Lake]:
    monkeypatch.setattr(tasks, "_SIGN_OF_LIFE_SECONDS", 0.001)
    monkeypatch.setattr(local_files, "CHUNK_FILES", 2)
    for number in range(9):
        file = site.folder / "outside" / f"{number}"
        file.parent.mkdir(exist_ok=True)
        file.write_text(f"{number}")
    async with site.lake(clock=clock, processes=gate) as lake:
        yield lake
        gate.opened.set()


def source(lake: Lake) -> ImportPath:
    return ImportPath(
        kind=ImportKind.PREFIX,
        address=f"local://{lake.engine.importer._temp}/outside/",
        destination="in/",
    )


async def start(lake: Lake) -> str:
    return (await lake.catalog.imports.start("lake", "main", [source(lake)], COMMIT)).id


async def status(lake: Lake, task: str) -> Task:
    return await lake.catalog.imports.status("lake", "main", task)


async def until(lake: Lake, task: str, state: TaskState) -> Task:
    while (found := await status(lake, task)).state is TaskState.RUNNING:
        await asyncio.sleep(0.001)
    assert found.state is state
    return found


async def test_an_import_says_how_far_it_is_and_what_it_made(lake: Lake, site: Site, gate: Gate) -> None:
    task = await start(lake)
    await gate.reached.wait()
    running = await status(lake, task)
    assert (running.state, running.progress) == (TaskState.RUNNING, 0)
    assert await lake.show("main") == {}

    gate.opened.set()
    done = await until(lake, task, TaskState.DONE)
    head = await lake.catalog.commits.get("lake", "main")
    assert done.progress == 9
    assert done.result == {"commit_id": head.id, "metarange_id": head.tree}
    async with site.lake() as other:
        assert await status(other, task) == done
    assert len(await lake.show("main")) == 9


async def test_a_cancelled_import_leaves_nothing(lake: Lake, site: Site, gate: Gate) -> None:
    before = await lake.catalog.branches.get("lake", "main")
    task = await start(lake)
    await gate.reached.wait()
    async with site.lake() as other:
        await other.catalog.imports.cancel("lake", "main", task)
    await until(lake, task, TaskState.CANCELLED)

    gate.opened.set()
    await lake.engine.parts.staging.drain()
    branch = await lake.catalog.branches.get("lake", "main")
    assert (branch.commit_id, dict(branch.pending)) == (before.commit_id, {})
    assert await lake.show("main") == {}
    assert list(site.folder.glob("import-*")) == []
    with pytest.raises(ConflictError) as caught:
        await lake.catalog.imports.cancel("lake", "main", task)
    assert caught.value.kind is ErrorKind.TASK_COMPLETED


@pytest.mark.parametrize("gone", ["repository", "namesake", "branch"])
async def test_an_import_stops_when_what_it_is_for_has_gone(lake: Lake, gate: Gate, gone: str) -> None:
    await lake.catalog.branches.create("lake", "dev", "main")
    running = asyncio.create_task(
        lake.engine.importer.run(lake.repo, BranchName("dev"), [source(lake)], COMMIT)
    )
    await gate.reached.wait()
    if gone == "branch":
        await lake.catalog.branches.delete("lake", "dev")
    else:
        await lake.catalog.repositories.delete("lake")
    if gone == "namesake":
        await lake.catalog.repositories.create("lake", f"{lake.repo.namespace}-again")

    # The gate is closed: whoever does not stop by itself stands there for ever.
    with pytest.raises(NotFoundError) as caught:
        await asyncio.wait_for(running, 60)
    wanted = {
        "repository": ErrorKind.REPO_NOT_FOUND,
        "namesake": ErrorKind.REPO_NOT_FOUND,
        "branch": ErrorKind.BRANCH_NOT_FOUND,
    }
    assert caught.value.kind is wanted[gone]
    assert list(lake.engine.importer._temp.glob("import-*")) == []


async def test_an_import_that_was_taken_for_dead_begins_again_under_another_name(
    lake: Lake, gate: Gate
) -> None:
    name, branches = BranchName("main"), lake.engine.parts.branches
    running = asyncio.create_task(lake.engine.importer.run(lake.repo, name, [source(lake)], COMMIT))
    await gate.reached.wait()
    gate.reached.clear()
    (before,) = (await branches.get(lake.repo, name)).value.pending
    await branches.update(
        lake.repo, name, lambda b, _now: replace(b, pending={}), landed=lambda b: not b.pending
    )

    await asyncio.wait_for(gate.reached.wait(), 60)
    (after,) = (await branches.get(lake.repo, name)).value.pending
    gate.opened.set()
    assert (await running).nonce == after != before
    assert len(await lake.show("main")) == 9


async def test_an_import_that_fails_says_why(lake: Lake, gate: Gate) -> None:
    await lake.put("main", staged="1")
    task = await start(lake)
    gate.opened.set()
    failed = await until(lake, task, TaskState.FAILED)
    assert failed.error_kind == ErrorKind.DIRTY_BRANCH
    assert "uncommitted changes" in failed.error


async def test_an_import_whose_process_died_reads_as_failed_after_a_while(
    lake: Lake, clock: OwnTime, kv: ShakyKV
) -> None:
    now = clock.now()
    task = Task(id=Nonce("t"), kind="import", state=TaskState.RUNNING, started_at=now, updated_at=now)
    await kv.swap(lake.repo.partition, task_key(task.id), encode_task(task), expected=Expect.ABSENT)

    clock.seconds += TASK_DEAD_SECONDS
    assert (await status(lake, task.id)).state is TaskState.RUNNING
    clock.seconds += 1
    dead = await status(lake, task.id)
    assert dead.state is TaskState.FAILED
    assert "start it again" in dead.error
    with pytest.raises(ConflictError) as caught:
        await lake.catalog.imports.cancel("lake", "main", task.id)
    assert caught.value.kind is ErrorKind.TASK_COMPLETED
    assert (await status(lake, task.id)).state is TaskState.FAILED, "asking it to stop is no sign of life"


async def test_signs_of_life_keep_a_long_import_alive(lake: Lake, clock: OwnTime, gate: Gate) -> None:
    task = await start(lake)
    await gate.reached.wait()
    for _ in range(3):
        clock.seconds += TASK_DEAD_SECONDS - 1
        seen = (await status(lake, task)).updated_at
        while (found := await status(lake, task)).updated_at == seen:
            await asyncio.sleep(0.001)
        assert found.state is TaskState.RUNNING
    gate.opened.set()
    await until(lake, task, TaskState.DONE)


@pytest.mark.parametrize("spoilt", [TaskState.RUNNING, TaskState.DONE])
async def test_a_store_that_does_not_answer_for_a_moment_does_not_change_how_an_import_ends(
    lake: Lake, kv: ShakyKV, gate: Gate, spoilt: TaskState
) -> None:
    task = await start(lake)
    await gate.reached.wait()
    refused: list[bytes] = []

    def down(key: bytes, value: bytes) -> bool:
        if key.startswith(TASKS_PREFIX) and decode_task(value).state is spoilt and len(refused) < 3:
            refused.append(key)
            return True
        return False

    kv.down = down
    while spoilt is TaskState.RUNNING and len(refused) < 3:
        await asyncio.sleep(0.001)
    gate.opened.set()
    done = await until(lake, task, TaskState.DONE)
    assert done.progress == 9
    assert len(refused) == 3


async def test_an_import_that_is_running_when_its_process_ends_is_recorded_as_stopped(
    lake: Lake, site: Site, clock: OwnTime
) -> None:
    gate = Gate()
    async with site.lake(clock=clock, processes=gate) as other:
        task = await start(other)
        await gate.reached.wait()
    assert (await status(lake, task)).state is TaskState.CANCELLED
    assert await lake.show("main") == {}


async def test_nobody_knows_an_import_that_never_was_or_was_swept(
    lake: Lake, clock: OwnTime, gate: Gate
) -> None:
    gate.opened.set()
    task = await start(lake)
    await until(lake, task, TaskState.DONE)
    clock.seconds += TASK_LIFETIME_SECONDS + 1
    assert await lake.catalog.imports._tasks.sweep(lake.repo) == 1
    for unknown in (task, "", "nonsense"):
        with pytest.raises(NotFoundError) as caught:
            await status(lake, unknown)
        assert caught.value.kind is ErrorKind.TASK_NOT_FOUND
