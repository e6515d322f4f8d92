"""The job's store over obstore, in a folder and on S3."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import obstore
import pytest
from obstore.exceptions import GenericError
from obstore.store import LocalStore, ObjectStore

from lakebed.env.clock import SECOND, SystemClock
from lakebed.env.ids import SystemIds
from lakebed.errors import ErrorKind, InvalidInputError, NotFoundError, UnavailableError
from lakebed.limits import MIB
from lakebed.objects.settings import StoreSettings
from lakebed.spark.gc import obstore_store
from lakebed.spark.gc.obstore_store import ObstoreStore, open_place
from lakebed.spark.gc.ports import StorePlace
from lakebed.testing.s3_server import make_bucket, s3_server


@pytest.fixture(scope="session")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StoreSettings]:
    with s3_server(tmp_path_factory.mktemp("weed")) as settings:
        make_bucket(settings, "lakes")
        yield settings


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
        monkeypatch.setattr(obstore_store, "_PART_BYTES", 5 * MIB)

    async def copy(self, store: ObjectStore, source: str, target: str) -> None:
        if (await obstore.head_async(store, source))["size"] > 5 * MIB:
            raise GenericError("InvalidRequest: the source is larger than 5368709120")
        await self._copy(store, source, target)


async def test_an_object_that_is_too_large_for_one_copy_is_copied_in_parts(
    store: ObstoreStore, monkeypatch: pytest.MonkeyPatch
):
    OnlySmall(monkeypatch)
    large = bytes(range(256)) * (12 * MIB // 256) + b"end"
    await store.put("large", large)
    await store.put("small", b"1")

    await store.copy("large", "aside/large")
    await store.copy("small", "aside/small")

    assert await store.get("aside/large") == large
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
