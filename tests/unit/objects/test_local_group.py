"""Small puts share their syncs."""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from lakebed.env.work import ThreadWorkers, Workers
from lakebed.errors import AlreadyExistsError
from lakebed.objects.drivers.local import LocalObjects
from lakebed.objects.local.changes import Changes
from lakebed.objects.local.disk import RealDisk, Sync
from lakebed.testing.object_suite import keys_of


class CountingDisk(RealDisk):
    """Counts the syncs of the journal instead of doing them."""

    def __init__(self) -> None:
        super().__init__()
        self.syncs = 0

    def sync(self, descriptor: int, what: Sync) -> None:
        self.syncs += what is Sync.JOURNAL_DATA

    def sync_all(self, descriptor: int, what: Sync) -> None:
        return None


class GatedWorkers:
    """Runs nothing before the gate is open."""

    def __init__(self) -> None:
        self._inner: Workers = ThreadWorkers(1)
        self.gate = asyncio.Event()
        self.gate.set()

    async def run(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        await self.gate.wait()
        return await self._inner.run(function, *args, **kwargs)


@pytest.fixture
def disk() -> CountingDisk:
    return CountingDisk()


@pytest.fixture
async def workers() -> GatedWorkers:
    return GatedWorkers()


@pytest.fixture
async def store(tmp_path: Path, disk: CountingDisk, workers: GatedWorkers) -> AsyncIterator[LocalObjects]:
    store = LocalObjects(tmp_path / "root", disk=disk, workers=workers)
    await store.put("first", b"1")
    disk.syncs = 0
    yield store
    await store.close()


async def test_puts_at_once_share_one_sync(store: LocalObjects, disk: CountingDisk) -> None:
    await asyncio.gather(*[store.put(f"k{n}", b"x") for n in range(100)])

    assert disk.syncs == 1


async def test_puts_that_arrive_during_a_sync_share_the_next_one(
    store: LocalObjects, disk: CountingDisk, workers: GatedWorkers
) -> None:
    workers.gate.clear()
    early = asyncio.gather(*[store.put(f"early{n}", b"x") for n in range(10)])
    for _ in range(10):
        await asyncio.sleep(0)
    late = asyncio.gather(*[store.put(f"late{n}", b"x") for n in range(10)])
    await asyncio.sleep(0)
    workers.gate.set()
    await asyncio.gather(early, late)

    assert disk.syncs == 2


async def test_what_is_not_synced_needs_no_thread(tmp_path: Path, workers: GatedWorkers) -> None:
    unsynced = LocalObjects(tmp_path / "unsynced", fsync=False, workers=workers)
    await unsynced.put("first", b"1")
    workers.gate.clear()

    await asyncio.gather(*[unsynced.put(f"k{n}", b"x") for n in range(10)])

    workers.gate.set()
    assert len(await keys_of(unsynced)) == 11
    await unsynced.close()


async def test_two_puts_of_a_key_at_once_happen_one_after_the_other(
    store: LocalObjects, disk: CountingDisk
) -> None:
    outcomes = await asyncio.gather(store.put("k", b"1"), store.put("k", b"2"), return_exceptions=True)

    assert isinstance(outcomes[1], AlreadyExistsError)
    assert await store.get("k") == b"1"


async def test_one_that_fails_does_not_take_its_neighbours_with_it(store: LocalObjects) -> None:
    outcomes = await asyncio.gather(
        *[store.put(key, b"2") for key in ("a", "first", "b")], return_exceptions=True
    )

    assert [isinstance(outcome, AlreadyExistsError) for outcome in outcomes] == [False, True, False]
    assert await keys_of(store) == ["a", "b", "first"]


async def test_a_caller_that_goes_away_leaves_the_others_alone(
    store: LocalObjects, workers: GatedWorkers
) -> None:
    workers.gate.clear()
    gone = asyncio.create_task(store.put("gone", b"1"))
    stays = asyncio.create_task(store.put("stays", b"1"))
    await asyncio.sleep(0)
    gone.cancel()
    workers.gate.set()

    await stays
    await store.put("next", b"1")

    assert gone.cancelled()
    assert "stays" in await keys_of(store)


async def test_a_bug_reaches_everyone_who_waits(store: LocalObjects, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_self: Changes, _puts: object) -> None:
        raise ZeroDivisionError

    with monkeypatch.context() as patch:
        patch.setattr(Changes, "put_small", broken)
        outcomes = await asyncio.gather(*[store.put(f"k{n}", b"") for n in range(3)], return_exceptions=True)

    assert [type(outcome) for outcome in outcomes] == [ZeroDivisionError] * 3
    await store.put("and it goes on", b"1")


async def test_a_closed_store_is_closed(tmp_path: Path) -> None:
    store = LocalObjects(tmp_path / "root")
    await store.put("k", b"1")
    await store.close()
    await store.close()

    with pytest.raises(Exception, match="is closed"):
        await store.put("l", b"1")
