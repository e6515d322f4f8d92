"""Clients that read from and write to an S3 server themselves, by URLs that we sign."""

import urllib.request
from collections.abc import Iterator

import lakefs
import lakefs_sdk
import pytest

from lakebed.testing.s3_server import make_bucket, s3_server
from lakebed.testing.server_process import ServerProcess, running_server
from tests.api.clients import high_level, low_level

pytestmark = [pytest.mark.server, pytest.mark.xdist_group("presigned")]


@pytest.fixture(scope="module")
def s3_backed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server whose default storage is a real S3 server."""
    with s3_server(tmp_path_factory.mktemp("s3")) as settings:
        make_bucket(settings, "lake")
        environment = {
            "LAKEBED_STORAGE_DEFAULT": "s3",
            "LAKEBED_STORAGE_S3_ENDPOINT": settings.s3_endpoint or "",
            "LAKEBED_STORAGE_S3_ACCESS_KEY_ID": settings.s3_access_key_id or "",
            "LAKEBED_STORAGE_S3_SECRET_ACCESS_KEY": settings.s3_secret_access_key or "",
        }
        with running_server(tmp_path_factory.mktemp("server"), environment=environment) as running:
            yield running


@pytest.fixture(scope="module")
def main(s3_backed: ServerProcess) -> lakefs.Branch:
    """The default branch of a repository on S3."""
    client = high_level(s3_backed)
    return lakefs.Repository("lake", client=client).create("s3://lake/repo").branch("main")


def test_clients_are_told_that_urls_are_signed(s3_backed: ServerProcess) -> None:
    with low_level(s3_backed) as client:
        config = lakefs_sdk.ConfigApi(client).get_config()
    assert config.storage_config.blockstore_type == "s3"
    assert config.storage_config.pre_sign_support


def test_an_object_goes_up_and_down_without_passing_the_server(main: lakefs.Branch) -> None:
    main.object("direct").upload(data=b"content", mode="wb", pre_sign=True, metadata={"k": "v"})
    stat = main.object("direct").stat(pre_sign=True)
    assert (stat.size_bytes, stat.metadata) == (7, {"k": "v"})
    with urllib.request.urlopen(stat.physical_address, timeout=10) as answer:
        assert answer.read() == b"content"
    with main.object("direct").reader(mode="rb", pre_sign=True) as reader:
        assert reader.read() == b"content"


def test_a_listing_has_urls_too(s3_backed: ServerProcess, main: lakefs.Branch) -> None:
    main.object("listed/a").upload(data=b"a", mode="wb")
    with low_level(s3_backed) as client:
        (found,) = (
            lakefs_sdk.ObjectsApi(client).list_objects("lake", "main", prefix="listed/", presign=True).results
        )
    assert found.physical_address_expiry is not None
    with urllib.request.urlopen(found.physical_address, timeout=10) as answer:
        assert answer.read() == b"a"
