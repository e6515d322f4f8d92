"""No key leaves the root, whatever stands in the folder."""

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from lakebed.errors import AlreadyExistsError, DeniedError, NotFoundError
from lakebed.limits import SMALL_OBJECT_BYTES_MAX
from lakebed.objects.drivers.local import LocalObjects
from lakebed.objects.port import PutMode
from lakebed.testing.object_suite import keys_of

LARGE = b"x" * (SMALL_OBJECT_BYTES_MAX + 1)


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A folder beside the root, with a secret in it."""
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "secret").write_bytes(b"secret")
    return folder


@pytest.fixture
async def root(tmp_path: Path) -> Path:
    folder = tmp_path / "root"
    folder.mkdir()
    return folder


@pytest.fixture
async def store(root: Path) -> AsyncIterator[LocalObjects]:
    store = LocalObjects(root)
    await store.put("inside", b"1")
    yield store
    await store.close()


@pytest.mark.parametrize("data", [b"mine", LARGE], ids=["small", "large"])
async def test_a_linked_folder_is_not_entered(
    store: LocalObjects, root: Path, outside: Path, data: bytes
) -> None:
    (root / "link").symlink_to(outside)

    with pytest.raises(NotFoundError):
        await store.get("link/secret")
    assert await store.head("link/secret") is None
    assert await keys_of(store) == ["inside"]
    assert await keys_of(store, "link/") == []

    await store.put("link/secret", data)
    await store.put("link/sub/new", data)

    assert await store.get("link/secret") == data
    assert await keys_of(store) == ["inside", "link/secret", "link/sub/new"]
    await store.delete(["link/secret", "link/sub/new", "link"])
    assert [path.name for path in outside.iterdir()] == ["secret"]
    assert (outside / "secret").read_bytes() == b"secret"


@pytest.mark.parametrize("data", [b"mine", LARGE], ids=["small", "large"])
async def test_a_linked_file_is_not_read_or_written(
    store: LocalObjects, root: Path, outside: Path, data: bytes
) -> None:
    (root / "link").symlink_to(outside / "secret")

    with pytest.raises(NotFoundError):
        await store.get("link")
    await store.put("link", data)
    await store.put("link", data + b"2", when=PutMode.OVERWRITE)

    assert await store.get("link") == data + b"2"
    assert (outside / "secret").read_bytes() == b"secret"
    await store.delete(["link"])
    assert (outside / "secret").exists()
    assert (root / "link").is_symlink()


async def test_a_folder_replaced_by_a_link_is_not_entered_although_it_was_known(
    store: LocalObjects, root: Path, outside: Path
) -> None:
    await store.put("data/secret", b"mine")
    await store.delete(["data/secret"])
    assert not (root / "data").exists(), "an empty folder is removed"
    (root / "data").symlink_to(outside)

    with pytest.raises(NotFoundError):
        await store.get("data/secret")
    await store.put("data/secret", b"again")

    assert (outside / "secret").read_bytes() == b"secret"


async def test_a_folder_that_others_removed_and_made_again_is_found_again(
    store: LocalObjects, root: Path
) -> None:
    other = LocalObjects(root)
    await store.put("data/old", b"1")
    await other.delete(["data/old"])
    assert not (root / "data").exists()
    await other.put("data/new", b"2")

    assert await store.get("data/new") == b"2"
    with pytest.raises(AlreadyExistsError):
        await store.put("data/new", b"3")
    await store.put("data/old", b"4")
    assert await other.get("data/old") == b"4"
    assert (root / "data" / "old").read_bytes() == b"4"
    await other.close()


async def test_a_pipe_does_not_make_anyone_wait(store: LocalObjects, root: Path) -> None:
    os.mkfifo(root / "pipe")

    with pytest.raises(NotFoundError):
        await store.get("pipe")
    assert await keys_of(store) == ["inside"]
    await store.put("pipe", b"an object")
    assert await store.get("pipe") == b"an object"


async def test_names_that_are_no_text_are_not_listed(store: LocalObjects, root: Path) -> None:
    (Path(os.fsdecode(os.fsencode(root) + b"/\xff\xfe"))).write_bytes(b"foreign")

    assert await keys_of(store) == ["inside"]


async def test_a_root_may_be_reached_through_a_link(tmp_path: Path, root: Path, store: LocalObjects) -> None:
    (tmp_path / "way in").symlink_to(root)
    other = LocalObjects(tmp_path / "way in")

    assert await other.get("inside") == b"1"
    await other.close()


async def test_looking_into_a_folder_leaves_nothing_there(tmp_path: Path) -> None:
    folder = tmp_path / "foreign"
    folder.mkdir()
    (folder / "file").write_bytes(b"1")
    store = LocalObjects(folder)

    assert await store.get("file") == b"1"
    assert await store.head("missing") is None
    assert await keys_of(store) == ["file"]
    await store.close()

    assert [path.name for path in folder.iterdir()] == ["file"]


async def test_looking_for_a_folder_does_not_make_it(tmp_path: Path) -> None:
    store = LocalObjects(tmp_path / "missing")

    assert await store.head("k") is None
    assert await keys_of(store) == []
    with pytest.raises(NotFoundError):
        await store.get("k")

    assert not (tmp_path / "missing").exists()


async def test_a_read_only_store_never_writes(root: Path) -> None:
    (root / "file").write_bytes(b"1")
    store = LocalObjects(root, read_only=True)

    assert await store.get("file") == b"1"
    for call in (
        store.put("k", b""),
        store.delete(["file"]),
        store.copy("file", "k"),
        store.create_upload("k"),
    ):
        with pytest.raises(DeniedError):
            await call

    assert [path.name for path in root.iterdir()] == ["file"]


async def test_the_last_one_out_leaves_no_journal_and_no_scratch(store: LocalObjects, root: Path) -> None:
    other = LocalObjects(root)
    await other.put("more", b"2")
    await store.put("even/more", b"3")

    await store.close()
    await other.close()

    journals = list((root / ".lakebed" / "journal").iterdir())
    assert [journal.stat().st_size for journal in journals] == [49]
    assert not (root / ".lakebed" / "scratch").exists()
    assert (root / "even" / "more").read_bytes() == b"3"
