"""Signatures and answers of S3, without a server."""

import fcntl
import http.client
import resource
import socket
from dataclasses import replace

import pytest

from lakebed.env.clock import SECOND, Instant
from lakebed.errors import ErrorKind, InvalidInputError, UnavailableError
from lakebed.objects.port import ETag, Part
from lakebed.objects.s3.place import S3Credentials, S3Place
from lakebed.objects.s3.replies import (
    complete_body,
    error_code,
    failure,
    parse_completed,
    parse_list,
    parse_upload_id,
)
from lakebed.objects.s3.requests import _is_over
from lakebed.objects.s3.signing import presigned_url, query_text, signed_headers

# The example in Amazon's documentation of signature version 4: bucket, key, date and keys are theirs.
EXAMPLE = S3Place(
    bucket="examplebucket",
    prefix="",
    endpoint="https://s3.amazonaws.com",
    region="us-east-1",
    path_style=False,
    credentials=S3Credentials(
        access_key_id="AKIAIOSFODNN7EXAMPLE", secret_access_key="wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
    ),
)
MAY_24_2013 = Instant(1_369_353_600 * SECOND)


def test_a_presigned_url_is_amazons_example() -> None:
    url = presigned_url(EXAMPLE, "GET", "/test.txt", seconds=86400, now=MAY_24_2013)

    assert url.endswith("X-Amz-Signature=aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404")
    assert url.startswith("https://examplebucket.s3.amazonaws.com/test.txt?X-Amz-Algorithm=AWS4-HMAC-SHA256&")


def test_a_signed_header_is_amazons_example() -> None:
    headers = signed_headers(
        EXAMPLE,
        "GET",
        "/test.txt",
        query={},
        headers={"Range": "bytes=0-9"},
        body=b"",
        now=MAY_24_2013,
    )

    assert headers["authorization"].endswith(
        "Signature=f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"
    )


def test_a_session_token_is_sent_and_signed() -> None:
    place = replace(EXAMPLE, credentials=replace(EXAMPLE.credentials, session_token="token/+"))
    headers = signed_headers(place, "GET", "/", query={}, headers={}, body=b"", now=MAY_24_2013)

    assert headers["x-amz-security-token"] == "token/+"
    assert "x-amz-security-token" in headers["authorization"]
    assert "X-Amz-Security-Token=token%2F%2B&" in presigned_url(
        place, "GET", "/k", seconds=1, now=MAY_24_2013
    )


def test_a_path_is_escaped_and_not_tidied() -> None:
    assert EXAMPLE.path("a//b/../c d+é%2F?#") == "/a//b/../c%20d%2B%C3%A9%252F%3F%23"
    assert query_text({"b": "x y", "a": "1&2"}) == "a=1%262&b=x%20y"


def test_a_page_of_a_listing_is_read() -> None:
    body = b"""<?xml version="1.0"?><ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">
    <IsTruncated>true</IsTruncated><NextContinuationToken>next</NextContinuationToken>
    <Contents><Key>a+b%2B%2520%0A</Key><ETag>&quot;e1&quot;</ETag><Size>7</Size>
    <LastModified>2026-01-02T03:04:05.678Z</LastModified></Contents></ListBucketResult>"""

    page = parse_list(body)

    [found] = page.objects
    assert (found.key, found.size_bytes, found.etag) == ("a b+%20\n", 7, "e1")
    assert found.mtime == 1_767_323_045_678_000
    assert page.next_token == "next"
    assert parse_list(body.replace(b"true", b"false")).next_token is None


def test_uploads_are_read_and_written() -> None:
    assert parse_upload_id(b"<R><UploadId>u 1</UploadId></R>") == "u 1"
    assert (
        parse_completed(
            b"<CompleteMultipartUploadResult><ETag>&quot;e-2&quot;</ETag></CompleteMultipartUploadResult>"
        )
        == "e-2"
    )
    assert parse_completed(b"<Error><Code>InternalError</Code></Error>") is None
    body = complete_body([Part(1, ETag("a&b"), 5)])
    assert b"<PartNumber>1</PartNumber><ETag>&quot;a&amp;b&quot;</ETag>" in body


@pytest.mark.parametrize(
    ("status", "code", "writing", "kind"),
    [
        (500, "InternalError", True, ErrorKind.OUTCOME_UNKNOWN),
        (502, "", True, ErrorKind.OUTCOME_UNKNOWN),
        (500, "InternalError", False, ErrorKind.STORE_UNAVAILABLE),
        (503, "SlowDown", True, ErrorKind.STORE_UNAVAILABLE),
        (429, "", True, ErrorKind.STORE_UNAVAILABLE),
        (403, "AccessDenied", True, ErrorKind.STORE_UNAVAILABLE),
        (404, "NoSuchBucket", True, ErrorKind.STORE_UNAVAILABLE),
        (400, "KeyTooLongError", True, ErrorKind.INVALID_KEY),
    ],
)
def test_only_an_answer_that_leaves_it_open_makes_a_write_unknown(
    status: int, code: str, writing: bool, kind: ErrorKind
) -> None:
    error = failure(status, f"<Error><Code>{code}</Code></Error>".encode(), what="a test", writing=writing)

    assert error.kind is kind
    assert isinstance(error, UnavailableError | InvalidInputError)


def test_an_answer_that_is_no_xml_is_an_outage() -> None:
    assert error_code(b"<html>not closed") == ""
    with pytest.raises(UnavailableError):
        parse_list(b"gateway time-out")


def test_a_connection_is_looked_at_however_many_files_are_open() -> None:
    if resource.getrlimit(resource.RLIMIT_NOFILE)[0] < 2000:
        pytest.skip("so many files cannot be open here")
    server, client = socket.socketpair()
    high = fcntl.fcntl(client.fileno(), fcntl.F_DUPFD, 1500)
    connection = http.client.HTTPConnection("host")
    connection.sock = socket.socket(fileno=high)
    client.close()

    assert not _is_over(connection)
    server.close()
    assert _is_over(connection)
    connection.close()
