"""A full disk is told as such, and leaves whole objects or none."""

import errno
from collections.abc import Awaitable, Callable
from itertools import count
from pathlib import Path

import pytest

from lakebed.env.ids import SeededIds
from lakebed.env.work import InlineWorkers
from lakebed.errors import ErrorKind, UnavailableError
from lakebed.limits import SMALL_OBJECT_BYTES_MAX
from lakebed.objects.drivers.local import LocalObjects
from lakebed.objects.port import PutMode
from lakebed.testing.fake_disk import ForgetfulDisk
from lakebed.testing.object_suite import keys_of, stream_of

LARGE = b"large" * (SMALL_OBJECT_BYTES_MAX // 5 + 1)
OLD = b"old"

Write = Callable[[LocalObjects], Awaitable[object]]

WRITES: dict[str, tuple[Write, bytes]] = {
    "small": (lambda store: store.put("new/folder/k", b"new"), b"new"),
    "small over": (lambda store: store.put("k", b"new", when=PutMode.OVERWRITE), b"new"),
    "large": (lambda store: store.put("new/folder/k", LARGE), LARGE),
    "large over": (lambda store: store.put("k", LARGE, when=PutMode.OVERWRITE), LARGE),
    "stream": (lambda store: store.put_stream("new/folder/k", stream_of([LARGE, LARGE])), LARGE + LARGE),
    "copy": (lambda store: store.copy("source", "new/folder/k"), LARGE),
    "hidden": (lambda store: store.put("a//b", b"new"), b"new"),
}


def opened(base: Path, disk: ForgetfulDisk) -> LocalObjects:
    return LocalObjects(base / "root", disk=disk, workers=InlineWorkers(), ids=SeededIds(1))


async def contents(store: LocalObjects) -> dict[str, bytes]:
    return {key: await store.get(key) for key in await keys_of(store)}


async def failure_of(call: Awaitable[object]) -> UnavailableError | None:
    try:
        await call
    except UnavailableError as error:
        return error
    return None


@pytest.mark.parametrize("name", WRITES)
async def test_a_write_that_fails_at_any_step_leaves_the_old_or_the_whole_new(
    tmp_path: Path, name: str
) -> None:
    write, new = WRITES[name]
    kinds = []
    for step in count(1):
        base = tmp_path / f"base-{step}"
        base.mkdir()
        disk = ForgetfulDisk(base)
        store = opened(base, disk)
        await store.put("k", OLD)
        await store.put("source", LARGE)
        before = await contents(store)
        disk._fail_at = disk.changes + step

        error = await failure_of(write(store))

        if error is None:
            await store.close()
            break
        kinds.append(error.kind)
        assert f"{base / 'root'} is full: free space there" in str(error)
        for after in (await contents(store), await after_power_cut(disk, tmp_path / f"left-{step}")):
            changed = {key: data for key, data in after.items() if before.get(key) != data}
            # Nothing is half there, and what certainly failed is not there at all, now or later.
            assert list(changed.values()) in ([], [new] if error.kind is ErrorKind.OUTCOME_UNKNOWN else [])
            assert before.keys() <= after.keys()
        await store.delete(list(set(await keys_of(store)) - before.keys()))
        assert await failure_of(write(store)) is None, "space was freed"
        await store.close()
    assert kinds.count(ErrorKind.DISK_FULL) >= 4
    assert set(kinds) <= {ErrorKind.DISK_FULL, ErrorKind.OUTCOME_UNKNOWN}


async def after_power_cut(disk: ForgetfulDisk, left: Path) -> dict[str, bytes]:
    store = opened(left, disk.cut(left))
    found = await contents(store)
    await store.close()
    return found


async def test_one_put_that_finds_no_room_does_not_take_the_others_with_it(tmp_path: Path) -> None:
    disk = ForgetfulDisk(tmp_path)
    store = opened(tmp_path, disk)
    await store.put("k", OLD)
    disk._fail_at = disk.changes + 2  # the bytes of the first one's file

    with pytest.raises(UnavailableError) as raised:
        await store.put("first", b"1")
    await store.put("second", b"2")

    assert raised.value.kind is ErrorKind.DISK_FULL
    assert await contents(store) == {"k": OLD, "second": b"2"}
    await store.close()


@pytest.mark.parametrize("number", [errno.EACCES, errno.EROFS, errno.EIO])
async def test_other_failures_of_the_disk_name_the_folder(tmp_path: Path, number: int) -> None:
    disk = ForgetfulDisk(tmp_path, error=number)
    store = opened(tmp_path, disk)
    await store.put("k", OLD)
    disk._fail_at = disk.changes + 1

    with pytest.raises(UnavailableError, match=str(tmp_path)) as raised:
        await store.put("l", b"1")

    assert raised.value.kind is ErrorKind.STORE_UNAVAILABLE
    await store.close()


async def test_a_root_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    store = LocalObjects(tmp_path / "file" / "root")

    with pytest.raises(UnavailableError, match="file/root"):
        await store.put("k", b"1")
    await store.close()
