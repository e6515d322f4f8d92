"""Import: files that lie elsewhere become entries, and importing them again reads only what changed."""

import hashlib
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from lakebed.errors import DeniedError, ErrorKind, InvalidInputError, LakebedError, NotFoundError
from lakebed.kv.drivers.memory import MemoryKV
from lakebed.model.commits import Commit
from lakebed.model.ids import BranchName
from lakebed.testing.lake import COMMIT, Lake
from lakebed.testing.site import Site, local_settings
from lakebed.versioning import local_files
from lakebed.versioning.importing import ImportKind, ImportPath


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "outside" / "source"
    folder.mkdir(parents=True)
    return folder


@pytest.fixture
async def lake(tmp_path: Path, source: Path) -> AsyncIterator[Lake]:
    """A repository on local files, which may import from the folder `outside`."""
    prefix = f"local://{tmp_path}/outside"
    site = Site(tmp_path, "local://", local_settings(tmp_path), kv=MemoryKV(), import_prefixes=(prefix,))
    async with site.lake() as lake:
        yield lake


def fill(folder: Path, **files: str) -> None:
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content)


def prefix(folder: Path, destination: str) -> ImportPath:
    return ImportPath(kind=ImportKind.PREFIX, address=f"local://{folder}/", destination=destination)


def single(file: Path, destination: str) -> ImportPath:
    return ImportPath(kind=ImportKind.OBJECT, address=f"local://{file}", destination=destination)


async def run(lake: Lake, *paths: ImportPath, **options) -> Commit:
    return await lake.engine.importer.run(lake.repo, BranchName("main"), paths, COMMIT, **options)


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sizes of the files whose bytes were read."""
    sizes: list[int] = []
    md5 = local_files._md5

    def counted(handle: int, size: int) -> str:
        sizes.append(size)
        return md5(handle, size)

    monkeypatch.setattr(local_files, "_md5", counted)
    return sizes


async def test_a_folder_is_imported_in_the_order_of_bytes_not_of_folders(lake: Lake, source: Path) -> None:
    files = {"a-b": "1", "a/b": "2", "a.b": "3", "a/c/d": "4", "a0": "5", "ü/é": "6", "b/-": "", "b!": "7"}
    fill(source, **files)
    commit = await run(lake, prefix(source, "in/"))

    shown = await lake.show("main")
    assert shown == {f"in/{name}": content for name, content in files.items()}
    assert list(shown) == sorted(shown, key=str.encode)
    assert (await lake.catalog.commits.get("lake", "main")).id == commit.id
    assert commit.metadata == {".lakefs.merge.strategy": "source-wins"}
    entry = await lake.catalog.objects.stat("lake", "main", "in/a/b")
    assert entry.address == f"local://{source}/a/b"
    assert entry.checksum == hashlib.md5(b"2").hexdigest()
    assert entry.size_bytes == 1
    assert entry.mtime == (source / "a" / "b").stat().st_mtime_ns // 1000


async def test_folders_larger_than_a_chunk_are_imported_whole(
    lake: Lake, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_files, "CHUNK_FILES", 7)
    files = {f"{i % 3}/{i:03}": f"{i}" for i in range(100)}
    fill(source, **files)
    seen: list[int] = []
    await run(lake, prefix(source, ""), progress=seen.append)

    assert await lake.show("main") == files
    assert seen[-1] == 100
    assert seen == sorted(set(seen)), "progress only grows"
    assert len(seen) > 10


async def test_one_object_is_imported_to_the_path_that_was_asked_for(lake: Lake, source: Path) -> None:
    fill(source, one="1", two="2")
    await lake.commit("main", **{"kept": "0", "there/one": "old", "there/two": "kept"})
    await run(lake, single(source / "one", "there/one"))

    assert await lake.show("main") == {"kept": "0", "there/one": "1", "there/two": "kept"}


async def test_what_was_below_a_destination_is_replaced_and_nothing_else(lake: Lake, source: Path) -> None:
    fill(source, **{"x/1": "x", "y/1": "y"})
    before = ["a", "in", "in-", "in/old", "in/x/1", "in/z/1", "in0", "other/old", "z"]
    await lake.commit("main", **dict.fromkeys(before, "old"))
    await run(lake, prefix(source / "x", "in/"), prefix(source / "y", "other/"), single(source / "x/1", "z"))

    kept = dict.fromkeys(["a", "in", "in-", "in0"], "old")
    assert await lake.show("main") == kept | {"in/1": "x", "other/1": "y", "z": "x"}


async def test_of_two_sources_of_one_path_the_later_counts(lake: Lake, source: Path) -> None:
    fill(source, **{"x/1": "x", "y/1": "y"})
    await run(lake, prefix(source / "x", "in/"), prefix(source / "y", "in/"))
    assert await lake.show("main") == {"in/1": "y"}
    await run(lake, prefix(source / "y", "in/"), single(source / "x/1", "in/1"))
    assert await lake.show("main") == {"in/1": "x"}


async def test_an_empty_folder_empties_its_destination(lake: Lake, source: Path) -> None:
    await lake.commit("main", **{"in/old": "old", "kept": "old"})
    await run(lake, prefix(source, "in/"))
    assert await lake.show("main") == {"kept": "old"}


async def test_importing_again_reads_only_what_changed(lake: Lake, source: Path, read: list[int]) -> None:
    fill(
        source,
        **{"same": "1", "touched": "22", "grown": "333", "sly": "4444", "gone": "55555", "d/same": "6"},
    )
    await run(lake, prefix(source, "in/"))
    assert sorted(read) == [1, 1, 2, 3, 4, 5]
    read.clear()

    os.utime(source / "touched", ns=(1, 10**18))
    was = (source / "sly").stat()
    fill(source, sly="LIES", grown="333333", new="7777777")
    os.utime(source / "sly", ns=(was.st_atime_ns, was.st_mtime_ns))
    (source / "gone").unlink()
    await run(lake, prefix(source, "in/"))

    assert sorted(read) == [2, 6, 7]
    shown = await checksums(lake)
    assert shown == {
        "in/same": md5("1"),
        "in/touched": md5("22"),
        "in/grown": md5("333333"),
        "in/sly": md5("4444"),  # Same size and time: taken for unchanged, like everywhere in the world.
        "in/new": md5("7777777"),
        "in/d/same": md5("6"),
    }


async def test_what_is_known_of_another_file_is_not_taken_for_this_one(
    lake: Lake, source: Path, read: list[int]
) -> None:
    fill(source, a="aaaa", b="bbbb")
    for name in ("a", "b"):
        os.utime(source / name, ns=(1, 10**18))
    await run(lake, single(source / "b", "in/a"))
    await run(lake, prefix(source, "in/"))

    assert await checksums(lake) == {"in/a": md5("aaaa"), "in/b": md5("bbbb")}


async def test_a_tree_that_was_imported_before_is_not_written_again(lake: Lake, source: Path) -> None:
    fill(source, **{f"{i}": f"{i}" for i in range(20)})
    first = await run(lake, prefix(source, "in/"))
    again = await run(lake, prefix(source, "in/"))
    assert again.tree == first.tree


async def test_others_may_commit_while_an_import_gathers(lake: Lake, source: Path, read: list[int]) -> None:
    fill(source, a="1")
    moved = False
    gather = lake.engine.importer._gather

    async def interrupted(*args):
        nonlocal moved
        if not moved:
            moved = True
            await lake.commit("main", other="2")
        return await gather(*args)

    lake.engine.importer._gather = interrupted
    await run(lake, prefix(source, "in/"))
    assert await lake.show("main") == {"in/a": "1", "other": "2"}
    assert read == [1], "the second try uses what the first has gathered"


async def test_a_dirty_branch_takes_no_import_and_keeps_what_is_staged(lake: Lake, source: Path) -> None:
    fill(source, a="1")
    await lake.put("main", staged="1")
    error = await refused(lake, prefix(source, "in/"), InvalidInputError)
    assert error.kind is ErrorKind.DIRTY_BRANCH
    assert "commit or reset" in str(error)
    assert await lake.show("main") == {"staged": "1"}


@pytest.mark.parametrize("make", [prefix, single])
async def test_a_source_that_is_not_there_is_said(lake: Lake, source: Path, make) -> None:
    error = await refused(lake, make(source / "nowhere", "in/x"), NotFoundError)
    assert error.kind is ErrorKind.OBJECT_NOT_FOUND
    assert "nowhere" in str(error)


async def test_a_folder_is_no_file(lake: Lake, source: Path) -> None:
    fill(source, file="1")
    await refused(lake, single(source, "in/x"), NotFoundError)


async def test_a_file_is_its_own_prefix(lake: Lake, source: Path) -> None:
    fill(source, file="1", file2="2")
    await run(lake, prefix(source / "file", "in/x"))
    listed = await lake.catalog.objects.list("lake", "main")
    assert listed.rows.column("key").to_pylist() == ["in/x"]


async def test_no_paths_are_no_import(lake: Lake) -> None:
    with pytest.raises(InvalidInputError) as caught:
        await run(lake)
    assert caught.value.kind is ErrorKind.INVALID_ARGUMENT


async def test_a_file_outside_the_import_prefixes_is_refused_however_it_is_named(
    lake: Lake, source: Path
) -> None:
    (source / "link").symlink_to("/etc/passwd")
    (source / "etc").symlink_to("/etc")
    for path in (
        single(Path("/etc/passwd"), "in/x"),
        single(source / "link", "in/x"),
        single(source / "etc" / "passwd", "in/x"),
        prefix(Path("/etc"), "in/"),
        prefix(source / "etc", "in/"),
        prefix(source.parent.parent, "in/"),
        prefix(source.parent.with_name("outside2"), "in/"),
    ):
        error = await refused(lake, path, DeniedError)
        assert error.kind is ErrorKind.EXTERNAL_ADDRESS
        assert "import prefix" in str(error)
    odd = ImportPath(kind=ImportKind.OBJECT, address=f"local://{source}/../../x", destination="in/x")
    assert (await refused(lake, odd, InvalidInputError)).kind is ErrorKind.INVALID_ADDRESS


async def test_a_link_inside_a_folder_stops_the_import(lake: Lake, source: Path) -> None:
    fill(source, **{"a": "1", "deep/b": "2"})
    (source / "deep" / "link").symlink_to("/etc/passwd")
    error = await refused(lake, prefix(source, "in/"), InvalidInputError)
    assert error.kind is ErrorKind.INVALID_ADDRESS
    assert "symbolic link" in str(error)


async def test_a_file_that_becomes_a_link_after_the_import_is_not_read(lake: Lake, source: Path) -> None:
    fill(source, a="1")
    await run(lake, prefix(source, "in/"))
    (source / "a").unlink()
    (source / "a").symlink_to("/etc/passwd")
    with pytest.raises(LakebedError) as caught:
        await lake.show("main")
    assert caught.value.kind is ErrorKind.EXTERNAL_ADDRESS


async def test_nothing_is_imported_unless_the_installation_allows_it(tmp_path: Path, source: Path) -> None:
    fill(source, a="1")
    site = Site(tmp_path, "local://", local_settings(tmp_path), kv=MemoryKV())
    async with site.lake() as lake:
        assert (await refused(lake, prefix(source, "in/"), DeniedError)).kind is ErrorKind.EXTERNAL_ADDRESS


async def test_the_storage_of_a_repository_is_no_source(lake: Lake, tmp_path: Path, source: Path) -> None:
    await lake.catalog.repositories.create("other", f"local://{source}/other")
    await lake.catalog.objects.upload("other", "main", "a", b"theirs")
    for path in (
        prefix(source / "other", "in/"),
        prefix(source / "other" / "data", "in/"),
        prefix(source, "in/"),
    ):
        error = await refused(lake, path, DeniedError)
        assert error.kind is ErrorKind.EXTERNAL_ADDRESS
        assert "repository" in str(error)


async def test_a_path_that_would_be_too_long_stops_the_import(lake: Lake, source: Path) -> None:
    fill(source, **{"n" * 200: "1"})
    error = await refused(lake, prefix(source, "d" * 900 + "/"), InvalidInputError)
    assert error.kind is ErrorKind.INVALID_PATH
    assert "shorter destination" in str(error)
    await run(lake, prefix(source, "d" * 823 + "/"))


@pytest.mark.parametrize("where", ["file", "folder"])
async def test_a_name_that_is_no_text_stops_the_import_the_first_time_and_later(
    lake: Lake, source: Path, where: str
) -> None:
    fill(source, fine="1")
    await run(lake, prefix(source, "in/"))
    bad = os.fsencode(source) + b"/n\xff"
    if where == "folder":
        Path(os.fsdecode(bad)).mkdir()
        bad += b"/x"
    os.close(os.open(bad, os.O_CREAT))
    for destination in ("in/", "new/"):
        error = await refused(lake, prefix(source, destination), InvalidInputError)
        assert error.kind is ErrorKind.INVALID_PATH
        assert "not valid Unicode" in str(error)


async def test_a_file_that_vanishes_meanwhile_is_said_and_nothing_is_left(
    lake: Lake, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(source, a="1", b="2")
    walk = local_files.walk_files

    def vanishing(root: str):
        for chunk in walk(root):
            (source / "b").unlink()
            yield chunk

    monkeypatch.setattr("lakebed.versioning.importing.walk_files", vanishing)
    error = await refused(lake, prefix(source, "in/"), NotFoundError)
    assert error.kind is ErrorKind.OBJECT_NOT_FOUND
    assert "import again" in str(error)
    branch = await lake.catalog.branches.get("lake", "main")
    assert not branch.pending


async def refused(lake: Lake, path: ImportPath, error: type[LakebedError]) -> LakebedError:
    """Return the error of an import that must change nothing."""
    before = await lake.catalog.branches.get("lake", "main")
    with pytest.raises(error) as caught:
        await run(lake, path)
    after = await lake.catalog.branches.get("lake", "main")
    assert (after.commit_id, dict(after.pending)) == (before.commit_id, {})
    assert list(lake.engine.importer._temp.glob("import-*")) == []
    return caught.value


async def checksums(lake: Lake) -> dict[str, str]:
    rows = (await lake.catalog.objects.list("lake", "main", amount=1000)).rows
    return dict(zip(rows.column("key").to_pylist(), rows.column("checksum").to_pylist(), strict=True))


def md5(text: str) -> str:
    return hashlib.md5(text.encode()).hexdigest()
