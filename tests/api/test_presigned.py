"""Clients that read from and write to an S3 server themselves, by URLs that we sign."""

import base64
import socket
import urllib.request

import httpx
import lakefs
import lakefs_sdk
import pytest
from lakefs_spec import LakeFSFileSystem

from lakebed.env.clock import SystemClock
from lakebed.limits import PART_BYTES
from lakebed.objects.s3.requests import S3Requests
from lakebed.objects.settings import StoreSettings
from lakebed.testing.server_process import ServerProcess
from tests.api.clients import low_level

pytestmark = [pytest.mark.server, pytest.mark.xdist_group("presigned")]


def test_clients_are_told_that_urls_are_signed(s3_backed: ServerProcess) -> None:
    with low_level(s3_backed) as client:
        config = lakefs_sdk.ConfigApi(client).get_config()
    assert config.storage_config.blockstore_type == "s3"
    assert config.storage_config.pre_sign_support


def test_an_object_goes_up_and_down_without_passing_the_server(on_s3: lakefs.Branch) -> None:
    on_s3.object("direct").upload(data=b"content", mode="wb", pre_sign=True, metadata={"k": "v"})
    stat = on_s3.object("direct").stat(pre_sign=True)
    assert (stat.size_bytes, stat.metadata) == (7, {"k": "v"})
    with urllib.request.urlopen(stat.physical_address, timeout=60) as answer:
        assert answer.read() == b"content"
    with on_s3.object("direct").reader(mode="rb", pre_sign=True) as reader:
        assert reader.read() == b"content"


def test_the_file_of_a_tree_has_a_url_too(s3_backed: ServerProcess, on_s3: lakefs.Branch) -> None:
    on_s3.object("tree").upload(data=b"a", mode="wb")
    tree = on_s3.commit("for its tree").get_commit().meta_range_id
    auth = (s3_backed.access_key, s3_backed.secret_key)
    url = f"{s3_backed.endpoint}/api/v1/repositories/lake/metadata/object/meta_range/{tree}"
    signed = httpx.get(url, params={"presign": "true"}, auth=auth)
    assert signed.status_code == 302
    assert httpx.get(signed.headers["location"]).content == httpx.get(url, auth=auth).content


def test_fsspec_signs_where_the_server_says_so(s3_backed: ServerProcess, on_s3: lakefs.Branch) -> None:
    fs = LakeFSFileSystem(
        host=s3_backed.endpoint,
        username=s3_backed.access_key,
        password=s3_backed.secret_key,
        skip_instance_cache=True,
        use_listings_cache=False,
    )
    fs.pipe_file("lake/main/fsspec/a", b"content")
    assert fs.cat_file("lake/main/fsspec/a") == b"content"
    assert on_s3.object("fsspec/a").stat().size_bytes == 7
    assert fs.find("lake/main/fsspec") == ["lake/main/fsspec/a"]


def test_a_listing_has_urls_too(s3_backed: ServerProcess, on_s3: lakefs.Branch) -> None:
    on_s3.object("listed/a").upload(data=b"a", mode="wb")
    with low_level(s3_backed) as client:
        (found,) = (
            lakefs_sdk.ObjectsApi(client).list_objects("lake", "main", prefix="listed/", presign=True).results
        )
    assert found.physical_address_expiry is not None
    with urllib.request.urlopen(found.physical_address, timeout=60) as answer:
        assert answer.read() == b"a"


def test_a_client_that_is_lost_during_an_upload_leaves_no_parts(
    s3_backed: ServerProcess, on_s3: lakefs.Branch, s3_settings: StoreSettings
) -> None:
    requests = S3Requests(s3_settings.s3_place("lake", ""), SystemClock())

    def uploads() -> int:
        return requests.send("GET", query={"uploads": ""}).body.count(b"<Upload>")

    before = uploads()
    key = f"{s3_backed.access_key}:{s3_backed.secret_key}".encode()
    host, port = s3_backed.endpoint.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=30) as connection:
        connection.sendall(
            b"POST /api/v1/repositories/lake/branches/main/objects?path=half HTTP/1.1\r\nHost: localhost\r\n"
            b"Authorization: Basic " + base64.b64encode(key) + b"\r\nContent-Length: 900000000\r\n\r\n"
        )
        while uploads() == before:
            connection.sendall(b"x" * PART_BYTES)
    # The server notices in its own time; each question gives it some.
    for _ in range(500):
        assert not on_s3.object("half").exists()
        if uploads() == before:
            break
    assert uploads() == before
    requests.close()


def test_the_store_says_how_it_keeps_an_object(s3_backed: ServerProcess, on_s3: lakefs.Branch) -> None:
    on_s3.object("kept").upload(data=b"content", mode="wb")
    with low_level(s3_backed) as client:
        found = lakefs_sdk.ObjectsApi(client).get_underlying_properties("lake", "main", "kept")
    assert found.storage_class == "STANDARD"
