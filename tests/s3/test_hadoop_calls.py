"""The calls of lakeFS's Hadoop file system, in their order: names through REST, bytes straight to the storage.

In simple mode it writes and reads physical addresses with the storage's own keys, in presigned mode by URLs that the server
signs. Its jar is not published where these tests could get it, so they make its requests.
"""

from typing import Any

import boto3
import httpx
import pytest
from botocore.config import Config

from lakebed.objects.settings import StoreSettings
from tests.s3.conftest import Endpoint

pytestmark = [pytest.mark.server, pytest.mark.xdist_group("s3")]


class Hadoop:
    """A file system as a job sees it."""

    def __init__(self, endpoint: Endpoint, storage: StoreSettings, repo: str, *, presigned: bool) -> None:
        self._endpoint = endpoint
        self._repo = repo
        self._presign = {"presign": "true"} if presigned else {}
        self._storage = boto3.client(
            "s3",
            endpoint_url=storage.s3_endpoint,
            aws_access_key_id=storage.s3_access_key_id,
            aws_secret_access_key=storage.s3_secret_access_key,
            region_name="us-east-1",
            config=Config(s3={"addressing_style": "path"}),
        )

    def call(self, method: str, below: str, wanted: int, **options: Any) -> Any:
        answer = self._endpoint.rest(method, f"/repositories/{self._repo}{below}", **options)
        assert answer.status_code == wanted, f"{method} {below}: {answer.status_code} {answer.text}"
        return answer.json() if answer.content else None

    def create(self, path: str, data: bytes) -> None:
        """Write a file: an address, the bytes, the link; then the markers of the folders above go."""
        self.call("GET", "/refs/main/objects/stat", 404, params={"path": path, **self._presign})
        params = {"path": path, **self._presign}
        place = self.call("GET", "/branches/main/staging/backing", 200, params=params)
        if self._presign:
            sent = httpx.put(place["presigned_url"], content=data)
            assert sent.status_code == 200, sent.text
            etag = sent.headers["etag"]
        else:
            etag = self._storage.put_object(**_at(place["physical_address"]), Body=data)["ETag"]
        body = {"staging": place, "checksum": etag.strip('"'), "size_bytes": len(data)}
        linked = self.call("PUT", "/branches/main/staging/backing", 200, params={"path": path}, json=body)
        assert (linked["path"], linked["size_bytes"]) == (path, len(data))
        folders = path.split("/")[:-1]
        for depth in range(len(folders), 0, -1):
            # A marker is gone, or there was none.
            marker = {"path": "/".join(folders[:depth]) + "/"}
            self.call("DELETE", "/branches/main/objects", 204, params=marker)

    def read(self, path: str, start: int, end: int) -> bytes:
        found = self.call("GET", "/refs/main/objects/stat", 200, params={"path": path, **self._presign})
        span = f"bytes={start}-{end}"
        if self._presign:
            part = httpx.get(found["physical_address"], headers={"Range": span})
            assert part.status_code == 206
            return part.content
        got = self._storage.get_object(**_at(found["physical_address"]), Range=span)
        data: bytes = got["Body"].read()
        return data

    def make_folder(self, path: str) -> int:
        """Create an empty object `path/`, unless it is there; return the status."""
        params = {"path": f"{path}/"}
        headers = {"If-None-Match": "*", "Content-Type": "application/octet-stream"}
        below = f"/repositories/{self._repo}/branches/main/objects"
        return self._endpoint.rest("POST", below, params=params, headers=headers, content=b"").status_code

    def is_folder(self, path: str) -> bool:
        self.call("GET", "/refs/main/objects/stat", 404, params={"path": path, **self._presign})
        params = {"prefix": f"{path}/", "after": "", "amount": 1, "delimiter": ""}
        return bool(self.call("GET", "/refs/main/objects/ls", 200, params=params)["results"])

    def names(self, folder: str) -> list[str]:
        """List a folder, two names a page."""
        found: list[str] = []
        after = ""
        while True:
            params = {"prefix": f"{folder}/", "after": after, "amount": 2, "delimiter": "/", **self._presign}
            page = self.call("GET", "/refs/main/objects/ls", 200, params=params)
            found += [each["path"] for each in page["results"]]
            if not page["pagination"]["has_more"]:
                return found
            after = page["pagination"]["next_offset"]

    def rename(self, source: str, target: str) -> None:
        body = {"src_path": source, "src_ref": "main"}
        self.call("POST", "/branches/main/objects/copy", 201, params={"dest_path": target}, json=body)
        self.call("DELETE", "/branches/main/objects", 204, params={"path": source})

    def remove(self, folder: str) -> None:
        params = {"prefix": f"{folder}/", "after": "", "amount": 1000, "delimiter": ""}
        paths = [
            each["path"] for each in self.call("GET", "/refs/main/objects/ls", 200, params=params)["results"]
        ]
        answer = self.call("POST", "/branches/main/objects/delete", 200, json={"paths": paths})
        assert not answer.get("errors")


@pytest.fixture(params=["simple", "presigned"])
def hadoop(endpoint: Endpoint, weed: StoreSettings, request: pytest.FixtureRequest) -> Hadoop:
    return Hadoop(endpoint, weed, endpoint.repository("s3"), presigned=request.param == "presigned")


def test_the_client_finds_the_repository_and_the_branch(hadoop: Hadoop) -> None:
    assert hadoop.call("GET", "", 200)["storage_namespace"].startswith("s3://lakes/")
    assert hadoop.call("GET", "/branches/main", 200)["id"] == "main"
    hadoop.call("GET", "/branches/nowhere", 404)


def test_a_job_writes_renames_reads_and_commits(hadoop: Hadoop) -> None:
    assert hadoop.make_folder("out") == 201
    assert hadoop.make_folder("out") == 412
    assert hadoop.is_folder("out")
    hadoop.create("out/_temporary/0/part-0", b"0123456789")
    assert not hadoop.is_folder("out/_temporary/1")
    assert hadoop.is_folder("out/_temporary")
    hadoop.rename("out/_temporary/0/part-0", "out/part-0")
    assert not hadoop.is_folder("out/_temporary")
    hadoop.create("out/part-1", b"abc")
    hadoop.create("out/_SUCCESS", b"")

    assert hadoop.names("out") == ["out/_SUCCESS", "out/part-0", "out/part-1"]
    assert hadoop.read("out/part-0", 2, 4) == b"234"
    hadoop.call("POST", "/branches/main/commits", 201, json={"message": "A job"})
    assert hadoop.read("out/part-1", 0, 9) == b"abc"


def test_a_folder_is_removed_with_all_that_is_below(hadoop: Hadoop) -> None:
    hadoop.create("old/a/1", b"1")
    hadoop.create("old/b", b"2")
    hadoop.remove("old")
    assert not hadoop.is_folder("old")


def _at(address: str) -> dict[str, str]:
    bucket, _, key = address.removeprefix("s3://").partition("/")
    return {"Bucket": bucket, "Key": key}
