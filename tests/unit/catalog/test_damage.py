"""Damaged storage: what is broken is named, what is whole is served, and nothing is written over it."""

from pathlib import Path

import pytest

from lakebed.catalog.diffs import DiffQuery
from lakebed.committed.cache import RangeCache
from lakebed.committed.names import METARANGES_FOLDER, RANGES_FOLDER
from lakebed.committed.trees import Trees
from lakebed.env.work import InlineWorkers
from lakebed.errors import CorruptError, ErrorKind, LakebedError, NotFoundError
from lakebed.kv.drivers.memory import MemoryKV
from lakebed.objects.port import ObjectStore, PutMode
from lakebed.objects.settings import StoreSettings
from lakebed.testing.lake import COMMIT, Lake
from lakebed.testing.site import Site
from lakebed.versioning.merge import MergeRequest


async def flip(store: ObjectStore, key: str, *, at: int = 40) -> None:
    """Flip a byte: the 40th is in the first page of the first column."""
    data = bytearray(await store.get(key))
    data[at] ^= 0xFF
    await store.put(key, bytes(data), when=PutMode.OVERWRITE)


async def truncate(store: ObjectStore, key: str) -> None:
    data = await store.get(key)
    await store.put(key, data[: len(data) // 2], when=PutMode.OVERWRITE)


async def empty(store: ObjectStore, key: str) -> None:
    await store.put(key, b"", when=PutMode.OVERWRITE)


async def swap_with_another(store: ObjectStore, key: str) -> None:
    folder = RANGES_FOLDER if key.startswith(RANGES_FOLDER) else METARANGES_FOLDER
    others = [other for other in await keys(store, folder) if other != key]
    await store.put(key, await store.get(others[0]), when=PutMode.OVERWRITE)


async def remove(store: ObjectStore, key: str) -> None:
    await store.delete([key])


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path, "mem://", StoreSettings(), kv=MemoryKV())


@pytest.fixture
async def store(site: Site) -> ObjectStore:
    """The namespace of a repository whose `main` has a commit, and `dev` another one on top of it."""
    async with site.lake() as lake:
        await lake.commit("main", a="1", b="1")
        await lake.catalog.branches.create("lake", "dev", "main")
        await lake.commit("dev", c="2", d="2", e="2")
    return site.in_memory["mem://lake"]


async def keys(store: ObjectStore, folder: str) -> list[str]:
    return [info.key async for page in store.list(folder) for info in page]


async def file_of(lake: Lake, ref: str, folder: str) -> str:
    tree = (await lake.catalog.commits.get("lake", ref)).tree
    if folder == METARANGES_FOLDER:
        return f"{METARANGES_FOLDER}{tree}.parquet"
    ranges = await (await lake.engine.parts.trees_of(lake.repo)).ranges(tree)
    return f"{RANGES_FOLDER}{ranges[0].id}.parquet"


@pytest.mark.parametrize("folder", [RANGES_FOLDER, METARANGES_FOLDER])
@pytest.mark.parametrize(
    ("damage", "kinds"),
    [
        (flip, {ErrorKind.CHECKSUM_MISMATCH, ErrorKind.UNREADABLE}),
        (truncate, {ErrorKind.UNREADABLE}),
        (empty, {ErrorKind.UNREADABLE}),
        (swap_with_another, {ErrorKind.CHECKSUM_MISMATCH}),
        (remove, {ErrorKind.FILE_MISSING}),
    ],
)
async def test_a_damaged_file_of_a_tree_is_named_by_every_operation_and_written_over_by_none(
    site: Site, store: ObjectStore, folder: str, damage, kinds: set[ErrorKind]
) -> None:
    async with site.lake() as lake:
        key = await file_of(lake, "dev", folder)
    await damage(store, key)
    before = {each: await store.get(each) for each in await keys(store, "")}

    async with site.lake() as lake:  # With an empty cache.
        head = await lake.catalog.commits.get("lake", "main")
        await lake.put("dev", staged="3")
        for call in (
            lambda: lake.catalog.objects.list("lake", "dev"),
            lambda: lake.catalog.objects.stat("lake", "dev", "c"),
            lambda: lake.catalog.diffs.diff("lake", "main", "dev", DiffQuery(), two_dot=True),
            lambda: lake.catalog.commits.commit("lake", "dev", COMMIT),
            lambda: lake.catalog.diffs.merge("lake", "dev", "main", MergeRequest(commit=COMMIT)),
        ):
            with pytest.raises(LakebedError) as caught:
                await call()
            assert type(caught.value) is CorruptError
            assert caught.value.kind in kinds
            assert key in str(caught.value)

        assert await lake.show("main") == {"a": "1", "b": "1"}, "what is whole is served"
        assert (await lake.catalog.commits.get("lake", "main")).id == head.id
        assert not (await lake.catalog.branches.get("lake", "dev")).pending
        await lake.catalog.branches.reset("lake", "dev")
        await lake.catalog.branches.hard_reset("lake", "dev", "main")
        assert await lake.show("dev") == {"a": "1", "b": "1"}, "and the branch can be taken back"
    after = {each: await store.get(each) for each in await keys(store, "")}
    assert before.items() <= after.items()


@pytest.mark.parametrize("folder", [RANGES_FOLDER, METARANGES_FOLDER])
async def test_a_flipped_byte_anywhere_is_an_error_or_makes_no_difference(
    site: Site, store: ObjectStore, folder: str
) -> None:
    async with site.lake() as lake:
        key = await file_of(lake, "dev", folder)
        tree = (await lake.catalog.commits.get("lake", "dev")).tree
    whole = await store.get(key)
    workers = InlineWorkers()
    found = 0
    for at in range(0, len(whole), 23):
        await flip(store, key, at=at)
        trees = Trees(store, RangeCache(None, workers=workers), workers)
        try:
            blocks = [block async for block in trees.scan(tree)]
        except CorruptError:
            found += 1
        else:
            assert [name for block in blocks for name in block.column("key").to_pylist()] == list("abcde")
        await store.put(key, whole, when=PutMode.OVERWRITE)
    assert found > len(whole) / 23 / 4, "most of a file matters"


async def test_a_file_that_is_whole_again_is_read_again(site: Site, store: ObjectStore) -> None:
    async with site.lake() as lake:
        key = await file_of(lake, "dev", RANGES_FOLDER)
    whole = await store.get(key)
    await flip(store, key)
    async with site.lake() as lake:
        with pytest.raises(CorruptError):
            await lake.show("dev")
        await store.put(key, whole, when=PutMode.OVERWRITE)
        assert await lake.show("dev") == {"a": "1", "b": "1", "c": "2", "d": "2", "e": "2"}


async def test_a_damaged_cache_is_fetched_again(tmp_path: Path, site: Site, store: ObjectStore) -> None:
    async with site.lake() as lake:
        tree = (await lake.catalog.commits.get("lake", "dev")).tree

    async def read() -> list[str]:
        """Read as a process does that was just started."""
        trees = Trees(store, RangeCache(tmp_path / "cache", workers=InlineWorkers()), InlineWorkers())
        return [name async for block in trees.scan(tree) for name in block.column("key").to_pylist()]

    assert await read() == list("abcde")
    for damage in (lambda data: data[:-100], lambda data: b"", lambda data: data.replace(b"abcde", b"abcdX")):
        files = list((tmp_path / "cache").glob("*.arrow"))
        assert len(files) == 2
        for file in files:
            data = file.read_bytes()
            file.unlink()
            file.write_bytes(damage(data))
        assert await read() == list("abcde")


async def test_bytes_that_are_gone_are_said_to_be_gone(site: Site, store: ObjectStore) -> None:
    async with site.lake() as lake:
        await store.delete([(await lake.catalog.objects.stat("lake", "main", "a")).address])
        with pytest.raises(NotFoundError) as caught:
            await lake.show("main")
        assert caught.value.kind is ErrorKind.DATA_MISSING
        assert "'a'" in str(caught.value)
