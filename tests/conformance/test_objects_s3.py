"""The S3 driver holds the contract on a real server."""

import re
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from lakebed.env.ids import SystemIds
from lakebed.errors import ErrorKind, InvalidInputError, UnavailableError
from lakebed.objects.open import open_store
from lakebed.objects.port import ObjectStore
from lakebed.objects.settings import StoreSettings
from lakebed.testing.object_suite import ObjectSuite
from lakebed.testing.s3_server import make_bucket

pytestmark = [pytest.mark.server, pytest.mark.xdist_group("s3")]

BUCKET = "conformance"


@pytest.fixture(scope="session")
def settings(weed: StoreSettings) -> StoreSettings:
    make_bucket(weed, BUCKET)
    return weed


class TestS3Objects(ObjectSuite):
    # What SeaweedFS does differently: it keeps objects in folders, whose names have at most 255 bytes.
    is_folder_tree = True
    keeps_replaced_parts = True

    @pytest.fixture
    async def store(self, settings: StoreSettings) -> AsyncIterator[ObjectStore]:
        self.url = f"s3://{BUCKET}/{SystemIds().token()}/namespace"
        self.settings = settings
        self.opened = [open_store(self.url, settings)]
        yield self.opened[0]
        for store in self.opened:
            await store.close()

    async def reopen(self, store: ObjectStore) -> ObjectStore:
        self.opened.append(open_store(self.url, self.settings))
        return self.opened[-1]

    def refuses(self, key: str) -> bool:
        return bool(
            re.search(r"[\x00-\x1f\x7f\\\uffff]", key)
            or set(key.split("/")) & {"", ".", ".."}
            or len(key.encode()) > 1024 - len("0123456789abcdefghij/namespace/")
        )

    def is_spoilt(self, key: str) -> bool:
        return any(len(segment.encode()) > 255 for segment in key.split("/"))

    async def test_a_key_that_the_server_finds_too_long_is_refused(self, store: ObjectStore) -> None:
        with pytest.raises(InvalidInputError) as raised:
            await store.put("x" * 300, b"1")

        assert raised.value.kind is ErrorKind.INVALID_KEY

    async def test_two_prefixes_of_a_bucket_do_not_meet(self, store: ObjectStore) -> None:
        await store.put("k", b"mine")
        beside = open_store(f"{self.url}2", self.settings)

        assert await beside.head("k") is None
        assert [page async for page in beside.list()] == []
        await beside.close()

    async def test_a_whole_bucket_is_a_store_too(self, store: ObjectStore) -> None:
        await store.put("k", b"1")
        whole = open_store(f"s3://{BUCKET}", self.settings)
        inside = self.url.removeprefix(f"s3://{BUCKET}/")

        assert await whole.get(f"{inside}/k") == b"1"
        assert [info.key async for page in whole.list(inside) for info in page] == [f"{inside}/k"]
        await whole.close()

    async def test_a_wrong_key_is_refused_with_the_next_step(self, store: ObjectStore) -> None:
        wrong = open_store(self.url, replace(self.settings, s3_secret_access_key="wrong"))

        for call in (wrong.put("k", b"1"), wrong.get("k"), wrong.head("k"), wrong.delete(["k"])):
            with pytest.raises(UnavailableError, match="check the access key") as raised:
                await call
            assert raised.value.kind is ErrorKind.STORE_UNAVAILABLE
        with pytest.raises(UnavailableError, match="check the access key"):
            await anext(wrong.list())
        await wrong.close()

    async def test_a_write_without_an_answer_has_an_unknown_outcome_and_a_read_has_not(
        self, store: ObjectStore
    ) -> None:
        gone = open_store(self.url, replace(self.settings, s3_endpoint="http://127.0.0.1:1"))

        for write in (gone.put("k", b"1"), gone.delete(["k"]), gone.create_upload("k"), gone.copy("a", "b")):
            with pytest.raises(UnavailableError) as raised:
                await write
            assert raised.value.kind is ErrorKind.OUTCOME_UNKNOWN
        for read in (gone.get("k"), gone.head("k"), anext(gone.list())):
            with pytest.raises(UnavailableError) as raised:
                await read
            assert raised.value.kind is ErrorKind.STORE_UNAVAILABLE
        await gone.close()
