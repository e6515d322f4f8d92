"""An optional header or parameter that is sent empty counts as absent, for every operation."""

import re
from collections.abc import AsyncIterator

import pytest

from lakebed.s3.operation import Level, Operation
from lakebed.s3.table import OPERATIONS
from lakebed.testing.rest import open_rest
from tests.s3.site import Site, site_of
from tests.s3.test_existence import BODIES, VALUES

HEADERS = (
    "if-match", "if-none-match", "if-modified-since", "if-unmodified-since", "range", "expect",
    "x-amz-copy-source-if-match", "x-amz-copy-source-if-none-match", "x-amz-copy-source-if-modified-since",
    "x-amz-copy-source-if-unmodified-since", "x-amz-copy-source-range", "x-amz-metadata-directive",
    "x-amz-tagging", "x-amz-tagging-directive", "x-amz-max-parts", "x-amz-part-number-marker",
    "x-amz-server-side-encryption", "x-amz-server-side-encryption-customer-algorithm", "x-amz-acl",
    "x-amz-storage-class", "cache-control", "content-type", "content-disposition", "content-encoding",
    "content-language", "expires",
)  # fmt: skip
PARAMETERS = (
    "prefix", "marker", "delimiter", "max-keys", "encoding-type", "start-after", "continuation-token", "fetch-owner",
    "key-marker", "upload-id-marker", "max-uploads", "part-number-marker", "max-parts", "max-buckets",
    "response-content-type", "response-content-language", "response-expires", "response-cache-control",
    "response-content-disposition", "response-content-encoding",
)  # fmt: skip
SENT = {**BODIES, "PutObject": b"3", "UploadPart": b"3"}
CHOOSING = ("list-type", "partNumber", "versionId")
CHANGING = re.compile(rb"<(RequestId|UploadId|LastModified)>[^<]*<")


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    async with open_rest() as rest:
        await rest.lake.commit("main", a="1", b="2")
        yield await site_of(rest)


async def answered(
    site: Site,
    operation: Operation,
    *,
    headers: dict[str, str] | None = None,
    parameters: tuple[str, ...] = (),
) -> tuple[int, bytes]:
    path = {Level.SERVICE: "/", Level.BUCKET: "/lake", Level.OBJECT: "/lake/main/a"}[operation.level]
    query = [f"{key}={VALUES.get(key, '')}" for key in sorted(operation.keys)]
    sent = site.signed(
        operation.method,
        "?".join((path, "&".join([*query, *(f"{name}=" for name in parameters)]))),
        SENT.get(operation.name, b""),
        headers={
            "x-amz-object-attributes": "ETag",
            **({"x-amz-copy-source": "/lake/main/b"} if operation.is_copy else {}),
            **(headers or {}),
        },
    )
    status, body = await site.send(sent)
    return status, CHANGING.sub(rb"<\1><", body)


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda each: each.name)
async def test_what_is_empty_is_absent(site: Site, operation: Operation) -> None:
    plain = await answered(site, operation)

    assert await answered(site, operation, headers=dict.fromkeys(HEADERS, "")) == plain
    assert await answered(site, operation, parameters=PARAMETERS) == plain


@pytest.mark.parametrize(
    "operation",
    [each for each in OPERATIONS if each.method in ("GET", "HEAD") and not each.keys],
    ids=lambda each: each.name,
)
async def test_an_empty_name_of_a_read_chooses_no_other_operation(site: Site, operation: Operation) -> None:
    assert await answered(site, operation, parameters=CHOOSING) == await answered(site, operation)


@pytest.mark.parametrize(
    ("method", "target", "status"),
    [
        ("DELETE", "/lake/main/a?uploadId=", 404),
        ("PUT", "/lake/main/a?partNumber=1&uploadId=", 404),
        ("PUT", "/lake/main/a?partNumber=&uploadId=u", 400),
        ("PUT", "/lake/main/a?partNumber=", 501),
        ("DELETE", "/lake/main/a?versionId=", 501),
    ],
)
async def test_an_upload_or_version_without_its_id_never_becomes_a_write_of_the_object(
    site: Site, method: str, target: str, status: int
) -> None:
    body = b"3" if method == "PUT" else b""
    assert (await site.send(site.signed(method, target, body)))[0] == status
    assert (await site.send(site.signed("GET", "/lake/main/a")))[1] == b"1"


@pytest.mark.parametrize(
    ("header", "status"),
    [("x-amz-copy-source", 400), ("content-md5", 400), ("x-amz-checksum-crc32", 400)],
)
async def test_a_source_or_checksum_that_is_empty_is_wrong(site: Site, header: str, status: int) -> None:
    assert (await site.send(site.signed("PUT", "/lake/main/a", b"3", headers={header: ""})))[0] == status
    assert (await site.send(site.signed("GET", "/lake/main/a")))[1] == b"1"


async def test_metadata_may_be_empty(site: Site) -> None:
    assert (await site.send(site.signed("PUT", "/lake/main/m", b"3", headers={"x-amz-meta-a": ""})))[0] == 200
    entry = await site.lake.catalog.objects.stat("lake", "main", "m")
    assert entry.metadata["X-Amz-Meta-a"] == ""
