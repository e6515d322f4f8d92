"""The job's store over obstore, in a folder and on S3."""

import asyncio
import pickle
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import obstore
import pytest
from obstore.exceptions import GenericError
from obstore.store import LocalStore, ObjectStore

from lakebed.env.clock import SECOND, SystemClock
from lakebed.env.ids import SystemIds
from lakebed.errors import ErrorKind, InvalidInputError, NotFoundError, UnavailableError
from lakebed.limits import GIB, MIB, PARTS_MAX
from lakebed.objects.settings import StoreSettings
from lakebed.spark.gc import obstore_store
from lakebed.spark.gc.obstore_store import ObstoreStore, open_place
from lakebed.spark.gc.ports import StorePlace
from lakebed.testing.s3_server import make_bucket


@pytest.fixture(scope="session")
def s3(weed: StoreSettings) -> StoreSettings:
    make_bucket(weed, "lakes")
    return weed


@pytest.fixture(params=["folder", "deeper", pytest.param("s3", marks=pytest.mark.server)])
def store(tmp_path: Path, request: pytest.FixtureRequest) -> ObstoreStore:
    if request.param != "s3":
        return ObstoreStore(LocalStore(tmp_path), prefix="" if request.param == "folder" else "deep/er")
    settings: StoreSettings = request.getfixturevalue("s3")
    place = StorePlace(
        kind="s3",
        url=f"s3://lakes/{SystemIds().token()}/lake",
        endpoint=settings.s3_endpoint or "",
        region="r",
    )
    environment = {
        "LAKEBED_STORAGE_S3_ACCESS_KEY_ID": settings.s3_access_key_id or "",
        "LAKEBED_STORAGE_S3_SECRET_ACCESS_KEY": settings.s3_secret_access_key or "",
        "AWS_ACCESS_KEY_ID": "another",
        "AWS_SECRET_ACCESS_KEY": "another",
    }
    return open_place(place, environment)


async def listed(store: ObstoreStore, prefix: str) -> list[str]:
    return sorted([key async for page in store.list(prefix) for key in page.column("address").to_pylist()])


async def test_what_is_put_comes_back(store: ObstoreStore):
    await store.put("a/b", b"123")
    await store.put("a/b", b"1234")

    assert await store.get("a/b") == b"1234"
    assert abs(await store.mtime("a/b") - SystemClock().now()) < 60 * SECOND


async def test_what_is_not_there_is_said_not_to_be(store: ObstoreStore):
    for call in (store.get("x"), store.mtime("x"), store.copy("x", "y")):
        with pytest.raises(NotFoundError):
            await call


async def test_a_listing_has_everything_below_a_folder_with_sizes(store: ObstoreStore):
    for n in range(3):
        await store.put(f"data/v/{n}", b"x" * n)
    await store.put("data/w/1", b"")

    pages = [page async for page in store.list("data/v/")]

    rows = sorted(
        row for page in pages for row in zip(*(c.to_pylist() for c in page.columns[:2]), strict=True)
    )
    assert rows == [("data/v/0", 0), ("data/v/1", 1), ("data/v/2", 2)]
    assert await listed(store, "data/none/") == []


async def test_a_folder_has_the_names_of_folders_and_the_objects_in_it(store: ObstoreStore):
    for key in ("root", "data/loose", "data/v/1", "data/w/1"):
        await store.put(key, b"x")

    top, data = await store.folder(""), await store.folder("data/")

    assert ([*top.folders], top.objects.column("address").to_pylist()) == (["data"], ["root"])
    assert (sorted(data.folders), data.objects.column("address").to_pylist()) == (["v", "w"], ["data/loose"])


async def test_a_folder_that_is_not_there_is_empty(store: ObstoreStore):
    found = await store.folder("data/")

    assert ([*found.folders], found.objects.num_rows) == ([], 0)


async def test_deleting_what_is_gone_deletes_the_rest(store: ObstoreStore):
    for key in ("a/1", "a/2", "a/3"):
        await store.put(key, b"")
    await store.delete(["a/1"])

    await store.delete(["a/1", "a/2", "a/3", "a/4"])
    await store.delete([])

    assert await listed(store, "a/") == []


async def test_a_copy_goes_over_what_is_there(store: ObstoreStore):
    await store.put("a", b"new")
    await store.put("b/c", b"old")

    await store.copy("a", "b/c")

    assert await store.get("b/c") == b"new"


async def test_folders_that_are_left_empty_go_and_others_stay(tmp_path: Path):
    store = open_place(StorePlace(kind="local", url=f"local://{tmp_path}"), {})
    for key in ("data/v/1", "data/v/2", "data/w/1", "data/w/deep/1", "loose", "_lakebed/gc/r/marked/0"):
        await store.put(key, b"")

    await store.delete(["data/v/1", "data/v/2", "data/w/deep/1", "loose", "_lakebed/gc/r/marked/0"])

    assert sorted(str(each.relative_to(tmp_path)) for each in tmp_path.rglob("*")) == [
        "data",
        "data/w",
        "data/w/1",
    ]
    await store.delete(["data/w/1", "data/w/1"])
    assert tmp_path.is_dir()
    await store.put("data/v/3", b"again")
    assert await store.get("data/v/3") == b"again"


class OnlySmall:
    """What obstore does on a store that copies small objects only."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._copy = obstore.copy_async
        monkeypatch.setattr(obstore, "copy_async", self.copy)
        monkeypatch.setattr(obstore_store, "_COPIED_BYTES_MAX", 5 * MIB)

    async def copy(self, store: ObjectStore, source: str, target: str) -> None:
        if (await obstore.head_async(store, source))["size"] > 5 * MIB:
            raise GenericError("InvalidRequest: the source is larger than 5368709120")
        await self._copy(store, source, target)


@pytest.mark.parametrize("parts_max", [2, 3])
async def test_an_object_that_is_too_large_for_one_copy_is_copied_in_parts(
    store: ObstoreStore, monkeypatch: pytest.MonkeyPatch, parts_max: int
):
    OnlySmall(monkeypatch)
    monkeypatch.setattr(obstore_store, "PARTS_MAX", parts_max)
    large = bytes(range(256)) * (12 * MIB // 256) + b"end"
    await store.put("large", large)
    await store.put("small", b"1")

    await store.copy("large", "aside/large")
    await store.copy("small", "aside/small")

    assert await store.get("aside/large") == large
    etag = (await obstore.head_async(store._store, f"{store._prefix}aside/large"))["e_tag"] or ""
    assert isinstance(store._store, LocalStore) or etag.strip('"').endswith(f"-{parts_max}")
    assert await store.get("aside/small") == b"1"
    with pytest.raises(NotFoundError):
        await store.copy("none", "aside/none")


async def test_a_copy_in_parts_that_breaks_off_leaves_nothing(
    store: ObstoreStore, monkeypatch: pytest.MonkeyPatch
):
    OnlySmall(monkeypatch)
    await store.put("large", b"x" * (12 * MIB))
    whole = obstore.get_range_async

    async def breaks(*place: Any, start: int, end: int) -> Any:
        if start > 5 * MIB:
            raise GenericError("no")
        return await whole(*place, start=start, end=end)

    monkeypatch.setattr(obstore, "get_range_async", breaks)
    with pytest.raises(UnavailableError, match="in parts failed"):
        await store.copy("large", "aside/large")

    with pytest.raises(NotFoundError):
        await store.get("aside/large")


@pytest.mark.parametrize("data", [b"x" * (12 * MIB), b"small"], ids=["in parts", "at once"])
@pytest.mark.parametrize("written", [b"less", None], ids=["less", "nothing"])
async def test_a_copy_that_is_not_as_large_as_its_source_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, data: bytes, written: bytes | None
):
    OnlySmall(monkeypatch)
    store = ObstoreStore(LocalStore(tmp_path))
    await store.put("source", data)
    put, copy = obstore.put_async, obstore.copy_async

    async def cuts(place: ObjectStore, target: str, *_data: Any, **_options: Any) -> None:
        if written is not None:
            await put(place, target, written)

    async def cuts_small(place: ObjectStore, source: str, target: str) -> None:
        if len(data) > 5 * MIB:
            await copy(place, source, target)
        await cuts(place, target)

    monkeypatch.setattr(obstore, "put_async", cuts)
    monkeypatch.setattr(obstore, "copy_async", cuts_small)
    with pytest.raises(UnavailableError, match=f"aside/source .* its source has {len(data)} bytes"):
        await store.copy("source", "aside/source")


async def test_an_upload_that_somebody_ends_meanwhile_is_not_taken_for_a_source_that_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    OnlySmall(monkeypatch)
    store = ObstoreStore(LocalStore(tmp_path))
    await store.put("large", b"x" * (6 * MIB))

    async def ended(*_call: Any, **_options: Any) -> None:
        raise FileNotFoundError("NoSuchUpload")

    monkeypatch.setattr(obstore, "put_async", ended)
    with pytest.raises(UnavailableError, match="copying large in parts failed"):
        await store.copy("large", "aside/large")


class Watched:
    """Copies in parts, looked at: how many there are at once, and of which sizes their parts and reads are."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, size: int) -> None:
        self.now, self.most = 0, 0
        self.parts: set[int] = set()
        self.reads: set[int] = set()
        self._size = size
        for name in ("copy_async", "put_async", "head_async", "get_range_async"):
            monkeypatch.setattr(obstore, name, getattr(self, name))

    async def copy_async(self, *_place: Any) -> None:
        raise GenericError("InvalidRequest: the source is larger than 5368709120")

    async def head_async(self, *_place: Any) -> Any:
        return {"last_modified": datetime.fromtimestamp(0, UTC), "size": self._size}

    async def get_range_async(self, *_place: Any, start: int, end: int) -> bytes:
        self.reads.add(end - start)
        return b""

    async def put_async(
        self,
        _store: ObjectStore,
        _key: str,
        pieces: AsyncIterator[bytes],
        *,
        chunk_size: int,
        **_options: Any,
    ) -> None:
        self.now += 1
        self.most = max(self.most, self.now)
        self.parts.add(chunk_size)
        await anext(pieces)
        for _ in range(5):
            await asyncio.sleep(0)
        self.now -= 1


def test_one_object_at_a_time_is_copied_in_parts_in_every_loop_and_wherever_the_store_is_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    watched = Watched(monkeypatch, size=6 * GIB)
    store = ObstoreStore(LocalStore(tmp_path))

    async def copies() -> None:
        await asyncio.gather(*(store.copy(f"large/{n}", f"aside/{n}") for n in range(8)))

    asyncio.run(copies())
    asyncio.run(copies())
    store = pickle.loads(pickle.dumps(store))
    asyncio.run(copies())

    assert watched.most == 1


@pytest.mark.parametrize("size", [6 * GIB, 48 * GIB, 5 * 1024 * GIB])
async def test_parts_are_as_small_as_their_number_allows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int
):
    watched = Watched(monkeypatch, size=size)

    await ObstoreStore(LocalStore(tmp_path)).copy("large", "aside/large")

    (part,) = watched.parts
    assert part == max(5 * MIB, -(-size // PARTS_MAX))
    assert max(watched.reads) <= 5 * MIB


async def test_a_copy_that_fails_for_another_reason_fails(
    store: ObstoreStore, monkeypatch: pytest.MonkeyPatch
):
    await store.put("small", b"1")

    async def no(*_place: Any) -> None:
        raise GenericError("no")

    monkeypatch.setattr(obstore, "copy_async", no)
    with pytest.raises(UnavailableError, match="copying small"):
        await store.copy("small", "aside/small")


def test_a_folder_that_is_elsewhere_says_where_to_run(tmp_path: Path):
    open_place(StorePlace(kind="local", url=f"local://{tmp_path}"), {})
    with pytest.raises(InvalidInputError, match="where the server runs"):
        open_place(StorePlace(kind="local", url="local:///not/here"), {})
    with pytest.raises(InvalidInputError, match="only S3 and folders"):
        open_place(StorePlace(kind="mem", url="mem://x"), {})


async def test_an_s3_that_does_not_answer_fails_a_listing():
    place = StorePlace(kind="s3", url="s3://bucket/lake", endpoint="http://127.0.0.1:9", region="r")
    environment = {"AWS_ACCESS_KEY_ID": "k", "AWS_SECRET_ACCESS_KEY": "s"}
    store = open_place(place, environment, attempts_max=0)

    with pytest.raises(UnavailableError) as caught:
        await store.folder("data/")
    assert caught.value.kind is ErrorKind.STORE_UNAVAILABLE
