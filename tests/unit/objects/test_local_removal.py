"""Removing an empty local store: nothing is left, nothing that another process uses is lost."""

import asyncio
import os
import threading
from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest
from tests.unit.objects.power import lucks

from lakebed.env.clock import SystemClock
from lakebed.env.ids import SystemIds
from lakebed.objects.drivers.local import LocalObjects
from lakebed.objects.local import opening
from lakebed.objects.local.changes import SmallPut
from lakebed.objects.local.disk import RealDisk
from lakebed.objects.local.locks import LOCKS, Locks, key_lock
from lakebed.objects.local.opening import OpenRoot, open_local_root
from lakebed.objects.port import PutMode
from lakebed.testing.fake_disk import ForgetfulDisk, PowerCutError
from lakebed.testing.object_suite import LARGE, keys_of, uploads_of


def files_below(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


async def emptied(store: LocalObjects) -> None:
    """Put, delete, begin and end an upload: everything that leaves traces."""
    await store.put("data/small/1", b"1")
    await store.put("data/large/1", LARGE)
    await store.put("a//hidden", b"1")
    upload = await store.create_upload("data/u")
    await store.put_part("data/u", upload, 1, b"x")
    await store.abort_upload("data/u", upload)
    await store.delete(await keys_of(store))


async def test_a_removed_store_leaves_no_file_and_no_folder_below_the_top(tmp_path: Path) -> None:
    store = LocalObjects(tmp_path / "a" / "b" / "root", top=tmp_path)
    await emptied(store)
    (tmp_path / "a" / "b" / "root" / ".lakebed" / "uploads" / "dead").mkdir(parents=True)
    (tmp_path / "a" / "b" / "root" / "data" / "empty").mkdir(parents=True)

    assert await store.remove_if_empty()
    assert files_below(tmp_path) == []
    assert await store.remove_if_empty(), "twice is no error"
    await store.close()

    assert files_below(tmp_path) == []


async def test_folders_of_others_stay(tmp_path: Path) -> None:
    (tmp_path / "a" / "other").mkdir(parents=True)
    store = LocalObjects(tmp_path / "a" / "root", top=tmp_path)
    await emptied(store)
    beside = LocalObjects(tmp_path / "mine")
    await beside.put("k", b"1")
    await beside.delete(["k"])

    assert await store.remove_if_empty()
    assert await beside.remove_if_empty()
    await store.close()
    await beside.close()

    assert files_below(tmp_path) == ["a", "a/other"]


async def test_the_top_itself_stays(tmp_path: Path) -> None:
    store = LocalObjects(tmp_path / "top", top=tmp_path / "top")
    await emptied(store)

    assert await store.remove_if_empty()
    await store.close()

    assert files_below(tmp_path) == ["top"]


async def test_deleting_what_is_not_there_makes_no_store(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "file").touch()
    store = LocalObjects(tmp_path / "root")
    await store.delete(["other", "file/below"])
    assert files_below(tmp_path) == ["root", "root/file"]

    await store.delete(["other", "file"])
    assert await keys_of(store) == []
    await store.close()


async def test_half_removed_stores_are_removed(tmp_path: Path) -> None:
    root = tmp_path / "root"
    (root / "data").mkdir(parents=True)
    bare = LocalObjects(root)
    assert await bare.remove_if_empty()
    await bare.close()
    assert files_below(tmp_path) == []

    (root / ".lakebed").mkdir(parents=True)
    partial = LocalObjects(root)
    assert await partial.remove_if_empty()
    await partial.close()
    assert files_below(tmp_path) == []


async def test_a_store_that_another_process_has_open_stays(tmp_path: Path) -> None:
    root = tmp_path / "root"
    store, other = LocalObjects(root), LocalObjects(root)
    await emptied(store)
    await other.put("k", b"1")
    await other.delete(["k"])

    assert not await store.remove_if_empty()
    await other.put("l", b"2")
    assert await store.get("l") == b"2", "it can still be used"
    await other.delete(["l"])
    await other.close()
    assert await store.remove_if_empty()
    await store.close()

    assert files_below(tmp_path) == []


async def test_writers_that_open_while_a_store_is_removed_lose_nothing(tmp_path: Path) -> None:
    root = tmp_path / "root"
    removed = 0

    async def write(name: str) -> None:
        for number in range(60):
            store = LocalObjects(root, fsync=False, top=tmp_path)
            key = f"data/{name}-{number}"
            await store.put(key, b"%d" % number)
            await asyncio.sleep(0)
            assert await store.get(key) == b"%d" % number
            await store.delete([key])
            await store.close()

    async def remove() -> None:
        nonlocal removed
        while not all(task.done() for task in writers):
            store = LocalObjects(root, fsync=False, top=tmp_path)
            removed += await store.remove_if_empty()
            await store.close()

    writers = [asyncio.create_task(write(name)) for name in "ab"]
    await asyncio.gather(*writers, remove(), remove())

    assert removed, "the stores met"
    last = LocalObjects(root, fsync=False)
    assert (await keys_of(last), await uploads_of(last)) == ([], [])
    assert await last.remove_if_empty()
    await last.close()
    assert files_below(tmp_path) == []


async def test_a_power_cut_during_a_removal_brings_nothing_back(tmp_path: Path) -> None:
    for stop_at in count(1):
        base = tmp_path / f"disk-{stop_at}"
        base.mkdir()
        disk = ForgetfulDisk(base)
        store = LocalObjects(base / "root", disk=disk)
        await emptied(store)
        disk._stop_at = disk.changes + stop_at
        try:
            assert await store.remove_if_empty()
            ended = True
        except PowerCutError:
            ended = False
        left = disk.cut(tmp_path / f"after-{stop_at}", luck=lucks(stop_at)[-1])
        again = LocalObjects(tmp_path / f"after-{stop_at}" / "root", disk=left)
        assert await keys_of(again) == []
        await again.put("k", b"1")
        await again.close()
        await store.close()
        if ended:
            assert not os.path.lexists(base / "root")
            return
    raise AssertionError("unreachable")


class HookedDisk(RealDisk):
    """Calls out around the removal of the lock file."""

    before: Callable[[], None] = staticmethod(lambda: None)
    after: Callable[[], None] = staticmethod(lambda: None)

    def unlink(self, folder: int, name: str) -> None:
        if name == LOCKS:
            self.before()
        super().unlink(folder, name)
        if name == LOCKS:
            self.after()


def opened(root: Path, disk: RealDisk, *, fsync: bool = True) -> OpenRoot:
    return open_local_root(
        str(root), disk=disk, clock=SystemClock(), ids=SystemIds(), fsync=fsync, journal_bytes_max=2**20
    )


def test_a_process_that_waited_for_a_removed_lock_file_takes_the_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, disk = tmp_path / "root", HookedDisk()
    removing = opened(root, disk)
    waiting, late, made = threading.Event(), list[OpenRoot](), list[OpenRoot]()

    class TellingLocks(Locks):
        def _take(self) -> int:
            descriptor = super()._take()
            if threading.current_thread().name == "waits":
                waiting.set()
            return descriptor

    monkeypatch.setattr(opening, "Locks", TellingLocks)
    waits = threading.Thread(target=lambda: late.append(opened(root, RealDisk())), name="waits")

    def wait_on_the_old_file() -> None:
        waits.start()
        assert waiting.wait(20)

    disk.before = wait_on_the_old_file
    disk.after = lambda: made.append(opened(root, RealDisk()))
    assert removing.remove_if_empty(None)
    waits.join(20)

    assert (len(late), len(made)) == (1, 1), "both have opened"
    with late[0].locks.hold([key_lock("k")]):
        assert made[0].locks.try_keep(key_lock("k")) is None, "both use one lock file"
    made[0].close()
    late[0].close()


@pytest.mark.parametrize("leave", ["remove", "close"])
@pytest.mark.parametrize("fsync", [True, False])
def test_one_that_leaves_late_spares_the_root_that_was_made_anew(
    tmp_path: Path, leave: str, fsync: bool
) -> None:
    root, disk = tmp_path / "root", HookedDisk()
    removing, leaving = opened(root, disk), opened(root, RealDisk(), fsync=fsync)
    leaving.user.close()  # It goes, and has come as far as this.
    made = list[OpenRoot]()
    disk.after = lambda: made.append(opened(root, RealDisk()))
    assert removing.remove_if_empty(None)

    if leave == "remove":
        assert not leaving.remove_if_empty(None), "another has opened it anew"
    else:
        leaving.close()

    made[0].changes.put_small([SmallPut("data/k", b"1", PutMode.CREATE)])
    found = made[0].files.find("data/k")
    assert found is not None
    made[0].changes.delete(["data/k"])
    assert made[0].remove_if_empty(None)
    assert files_below(tmp_path) == []
