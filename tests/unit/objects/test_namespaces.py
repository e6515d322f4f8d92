"""URLs of places, and the stores they open."""

from pathlib import Path

import pytest

from lakebed.errors import ErrorKind, InvalidInputError, UnavailableError
from lakebed.objects.drivers.local import LocalObjects
from lakebed.objects.drivers.memory import MemoryObjects
from lakebed.objects.drivers.s3 import S3Objects
from lakebed.objects.namespaces import (
    canonical_namespace,
    is_within,
    normalise_namespace,
    overlap,
    parse_place,
)
from lakebed.objects.open import open_store
from lakebed.objects.settings import StoreSettings

KEYS = StoreSettings(s3_access_key_id="id", s3_secret_access_key="secret", local_roots=(Path("/abs"),))


@pytest.mark.parametrize(
    ("url", "canonical"),
    [
        ("s3://bucket", "s3://bucket"),
        ("s3://bucket/", "s3://bucket"),
        ("s3://bucket/a/b/", "s3://bucket/a/b"),
        ("mem://x/y", "mem://x/y"),
        ("local:///abs/path/", "local:///abs/path"),
        ("local://name/x", "local:///data/name/x"),
        ("local://name", "local:///data/name"),
    ],
)
def test_a_place_has_one_spelling(url: str, canonical: str) -> None:
    assert canonical_namespace(url, Path("/data")) == canonical


@pytest.mark.parametrize(
    "url",
    [
        "",
        "bucket/x",
        "http://host/x",
        "s3:/bucket",
        "S3://bucket",
        "s3://",
        "s3:///x",
        "mem://",
        "local://",
        "local:///",
        "local://../x",
        "local://.",
        "s3://b/../x",
        "s3://b/./x",
        "s3://b//x",
        "local:///a/../../etc",
        "local:///a\0b",
        "local://a\0/b",
    ],
)
def test_what_names_no_place_is_refused(url: str) -> None:
    with pytest.raises(InvalidInputError) as raised:
        parse_place(url)

    assert raised.value.kind is ErrorKind.INVALID_NAMESPACE


@pytest.mark.parametrize(
    "url",
    [
        "local://" + "a/" * 40,
        "local:///" + "a/" * 2_000 + "b",
        "local://" + "a" * 256,
        "local://" + "é" * 128,
        "s3://b/" + "/".join(["a" * 250] * 5),
        "local://" + "a/" * 1_000_000 + "b",
    ],
)
def test_a_place_too_long_or_too_deep_for_a_repository_is_refused(url: str) -> None:
    with pytest.raises(InvalidInputError) as raised:
        normalise_namespace(url)

    assert raised.value.kind is ErrorKind.INVALID_NAMESPACE
    assert len(str(raised.value)) < 500


def test_an_unknown_scheme_is_refused_with_those_there_are() -> None:
    with pytest.raises(InvalidInputError, match=r"local://, mem://, s3://") as raised:
        open_store("gs://bucket", KEYS)

    assert raised.value.kind is ErrorKind.INVALID_NAMESPACE


def test_a_name_without_a_data_folder_is_refused() -> None:
    with pytest.raises(UnavailableError, match="data folder"):
        open_store("local://name", StoreSettings())


def test_places_nest_by_whole_parts() -> None:
    assert is_within("s3://b/a/x", "s3://b/a")
    assert is_within("s3://b/a", "s3://b/a")
    assert not is_within("s3://b/ab", "s3://b/a")
    assert not is_within("s3://b/a", "s3://b/a/x")
    assert overlap("s3://b/a", "s3://b/a/x")
    assert overlap("s3://b/a/x", "s3://b/a")
    assert overlap("local:///", "local:///x")
    assert not overlap("s3://b", "s3://b2")
    assert not overlap("s3://b/x", "mem://b/x")


def test_two_ways_to_a_folder_are_one_place(tmp_path: Path) -> None:
    (tmp_path / "real" / "below").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "real")

    real = canonical_namespace(f"local://{tmp_path}/real")
    linked = canonical_namespace(f"local://{tmp_path}/link")
    below = canonical_namespace("local://link/below/new", tmp_path)

    assert real == linked
    assert overlap(real, below)


@pytest.mark.parametrize(
    ("url", "driver"),
    [("mem://x", MemoryObjects), ("local:///abs", LocalObjects), ("s3://bucket/x", S3Objects)],
)
async def test_each_scheme_has_its_driver(url: str, driver: type) -> None:
    store = open_store(url, KEYS)

    assert isinstance(store, driver)
    await store.close()


async def test_a_named_store_lies_below_the_data_folder(tmp_path: Path) -> None:
    store = open_store("local://lake/one", StoreSettings(data_dir=tmp_path))
    await store.put("k", b"1")
    await store.close()

    assert (tmp_path / "lake" / "one" / "k").read_bytes() == b"1"


def test_s3_without_an_access_key_is_refused_with_the_next_step() -> None:
    with pytest.raises(InvalidInputError, match="AWS_ACCESS_KEY_ID") as raised:
        open_store("s3://bucket", StoreSettings())

    assert raised.value.kind is ErrorKind.INVALID_CONFIG


@pytest.mark.parametrize("endpoint", ["localhost:9000", "ftp://host", "http://", "http://host/path"])
def test_an_endpoint_that_is_none_is_refused(endpoint: str) -> None:
    settings = StoreSettings(s3_endpoint=endpoint, s3_access_key_id="id", s3_secret_access_key="secret")

    with pytest.raises(InvalidInputError) as raised:
        open_store("s3://bucket", settings)

    assert raised.value.kind is ErrorKind.INVALID_CONFIG


def test_amazon_has_the_bucket_in_the_host_and_others_in_the_path() -> None:
    amazon = KEYS.s3_place("bucket", "")
    other = StoreSettings(
        s3_endpoint="http://host:9000", s3_access_key_id="id", s3_secret_access_key="secret"
    ).s3_place("bucket", "pre")

    assert (amazon.host, amazon.path("k")) == ("bucket.s3.us-east-1.amazonaws.com", "/k")
    assert (other.host, other.path(other.name("k"))) == ("host:9000", "/bucket/pre/k")


def test_no_secret_shows_in_settings() -> None:
    settings = StoreSettings(s3_access_key_id="id", s3_secret_access_key="hush", s3_session_token="hush")

    assert "hush" not in repr(settings)
    assert "hush" not in repr(settings.s3_place("bucket", ""))
