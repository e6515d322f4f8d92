"""What botocore signs is accepted, and nothing else is."""

import hmac
import string
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qsl, quote, unquote_to_bytes

import pytest
from botocore.auth import HmacV1Auth, HmacV1QueryAuth, S3SigV4Auth, S3SigV4QueryAuth
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from lakebed.auth.secret import Secret
from lakebed.env.clock import after
from lakebed.s3.errors import Code, S3Error
from lakebed.s3.request import Request
from lakebed.s3.signatures.canonical import canonical_request, escaped_query, sent_query
from lakebed.s3.signatures.scheme import SignedV4, carries_signature, find_signature
from lakebed.s3.signatures.v2 import DISPUTED, SUB_RESOURCES
from lakebed.s3.signatures.v4 import signing_key, string_to_sign, verify_v4
from lakebed.s3.table import OPERATIONS
from tests.s3.signatures.signing import CREDENTIALS, NOW, SECRET_TEXT, decoded, signed_by, verify

SIGNERS: dict[str, Callable[[], Any]] = {
    "header v4": lambda: S3SigV4Auth(CREDENTIALS, "s3", "eu-west-1"),
    "query v4": lambda: S3SigV4QueryAuth(CREDENTIALS, "s3", "eu-west-1", expires=60),
    "header v2": lambda: HmacV1Auth(CREDENTIALS),
    "query v2": lambda: HmacV1QueryAuth(CREDENTIALS, expires=60),
}
V4 = ("header v4", "query v4")
NAMES = (
    "acl",
    "uploads",
    "uploadId",
    "partNumber",
    "response-content-type",
    "prefix",
    "a",
    "a-b",
    "a.b",
    "é",
)

values = st.text(st.characters(codec="utf-8"), max_size=8)
targets = st.builds(
    lambda path, query: "/lake/main/" + quote(path, safe="/~") + ("?" + query if query else ""),
    st.text(st.characters(codec="utf-8"), max_size=12),
    st.dictionaries(st.sampled_from(NAMES), values, max_size=4).map(
        lambda pairs: "&".join(f"{quote(name, safe='~')}={quote(pairs[name], safe='~')}" for name in pairs)
    ),
)
header_values = st.text(string.ascii_letters + string.digits + " ,;=/", max_size=12).map(str.strip)
header_sets = st.dictionaries(
    st.sampled_from(("x-amz-acl", "x-amz-meta-a", "x-amz-meta-b-c", "content-type", "cache-control")),
    header_values,
    max_size=3,
)
methods = st.sampled_from(("GET", "PUT", "POST", "DELETE", "HEAD"))


@given(st.sampled_from(list(SIGNERS)), methods, targets, header_sets)
def test_what_botocore_signs_is_accepted(
    kind: str, method: str, target: str, headers: dict[str, str]
) -> None:
    verify(signed_by(SIGNERS[kind](), method=method, target=target, headers=headers))


CHANGES: dict[str, Callable[[Request], Request]] = {
    "method": lambda r: replace(r, method="DELETE"),
    "path": lambda r: replace(r, raw_path=r.raw_path + "x"),
    "dots": lambda r: replace(r, raw_path=r.raw_path.replace("/main/", "/main/./")),
    "query": lambda r: _with_query(r, r.raw_query.replace("partNumber=1", "partNumber=2")),
    "more query": lambda r: _with_query(r, r.raw_query + "&acl"),
    "less query": lambda r: _with_query(r, r.raw_query.replace("partNumber=1&", "")),
    "header": lambda r: _with_header(r, "x-amz-meta-a", "two"),
    "more headers": lambda r: _with_header(r, "x-amz-meta-b", "one"),
    "less headers": lambda r: replace(r, headers={k: v for k, v in r.headers.items() if k != "x-amz-meta-a"}),
}


@pytest.mark.parametrize(
    ("kind", "change"),
    # Version 2 puts headers into a presigned query as well, and that is what counts.
    [(k, c) for k in SIGNERS for c in CHANGES if (k, c) != ("query v2", "less headers")],
)
def test_a_request_with_one_thing_changed_is_refused(kind: str, change: str) -> None:
    request = signed_by(
        SIGNERS[kind](),
        method="PUT",
        target="/lake/main/a?partNumber=1&uploadId=u",
        headers={"x-amz-meta-a": "one"},
    )
    verify(request)
    changed = CHANGES[change](request)
    assert changed != request

    with pytest.raises(S3Error) as refused:
        verify(changed)

    assert refused.value.code in (Code.SIGNATURE_DOES_NOT_MATCH, Code.ACCESS_DENIED)


ADDED = (
    "acl", "%61cl", "a%63l=", "%61%63%6c", "%64elete", "t%61gging", "uplo%61ds", "%75ploads=", "versionId=1",
    "%76ersionId=1", "partNumbe%72=2", "uploadI%64=v", "response-content-type=text/html",
    "response-content-typ%65=text/html", "r%65store", "%70artNumber=2&partNumber=1",
)  # fmt: skip


@pytest.mark.parametrize("kind", SIGNERS)
@pytest.mark.parametrize("added", ADDED)
@pytest.mark.parametrize("first", [True, False])
def test_a_sub_resource_that_is_obeyed_is_signed_however_it_is_escaped(
    kind: str, added: str, first: bool
) -> None:
    request = signed_by(SIGNERS[kind](), method="PUT", target="/lake/main/a?partNumber=1&uploadId=a%2Bb")
    changed = _with_query(
        request, f"{added}&{request.raw_query}" if first else f"{request.raw_query}&{added}"
    )

    with pytest.raises(S3Error) as refused:
        verify(changed)

    assert refused.value.code is Code.SIGNATURE_DOES_NOT_MATCH


@pytest.mark.parametrize("kind", SIGNERS)
def test_a_plus_is_signed_as_the_space_that_it_is_obeyed_as(kind: str) -> None:
    request = signed_by(SIGNERS[kind](), target="/lake/main/a?uploadId=a%2Bb")
    verify(request)
    with pytest.raises(S3Error):
        verify(_with_query(request, request.raw_query.replace("a%2Bb", "a+b")))


@pytest.mark.parametrize("kind", SIGNERS)
def test_a_sub_resource_that_was_signed_may_be_escaped_otherwise(kind: str) -> None:
    request = signed_by(SIGNERS[kind](), target="/lake/main/a?acl&uploadId=a%2Bb")
    verify(_with_query(request, request.raw_query.replace("acl", "%61cl").replace("uploadId", "upload%49d")))


@pytest.mark.parametrize("name", sorted(DISPUTED))
def test_a_name_that_only_some_clients_sign_may_be_signed_or_not(name: str) -> None:
    # botocore signs `object-lock` alone of them; minio-go signs the other three.
    request = signed_by(SIGNERS["header v2"](), target=f"/lake?{name}")
    verify(request)
    unsigned = signed_by(SIGNERS["header v2"](), target="/lake")
    verify(_with_query(unsigned, name))
    verify(_with_query(unsigned, f"{name}="))


def test_version_2_signs_the_name_of_every_operation_that_writes() -> None:
    # What is chosen by a name that version 2 does not sign only shows something of what the path names.
    unsigned = {row.name for row in OPERATIONS if not row.keys <= SUB_RESOURCES}
    assert all(not row.writes for row in OPERATIONS if row.name in unsigned), unsigned


@settings(max_examples=400)
@given(st.sampled_from(V4), st.data())
def test_whatever_is_accepted_means_what_was_signed(kind: str, data: st.DataObject) -> None:
    request = signed_by(
        SIGNERS[kind](),
        method="PUT",
        target="/lake/main/a%2Bb?acl=&c=d",
        headers={"x-amz-meta-a": "one  two"},
    )
    changed = data.draw(_mutations(request))

    try:
        verify(changed)
    except S3Error:
        return

    assert _meaning(changed) == _meaning(request)


@settings(max_examples=400)
@given(st.sampled_from(list(SIGNERS)), st.data())
def test_no_request_fails_in_another_way_than_by_an_s3_error(kind: str, data: st.DataObject) -> None:
    request = signed_by(SIGNERS[kind](), method="PUT", headers={"x-amz-meta-a": "one"})
    for _ in range(data.draw(st.integers(1, 3))):
        request = data.draw(_mutations(request))

    try:
        if find_signature(request) is not None:
            verify(request)
    except S3Error:
        pass


@pytest.mark.parametrize("kind", SIGNERS)
def test_a_wrong_secret_is_refused_with_what_should_have_been_signed(kind: str) -> None:
    request = signed_by(SIGNERS[kind]())
    if "header" in kind:
        request = _with_header(request, "authorization", request.headers["authorization"][:-3] + "AA=")
    else:
        name = "X-Amz-Signature" if kind in V4 else "Signature"
        request = _with_query(request, request.raw_query.replace(f"{name}=", f"{name}=0"))

    with pytest.raises(S3Error) as refused:
        verify(request)

    assert refused.value.code is Code.SIGNATURE_DOES_NOT_MATCH
    assert {"StringToSign", "SignatureProvided", "AWSAccessKeyId"} <= refused.value.details.keys()
    assert ("CanonicalRequest" in refused.value.details) == (kind in V4)


@pytest.mark.parametrize("kind", ["header v4", "header v2"])
@pytest.mark.parametrize("seconds", [-902, 902])
def test_a_clock_that_is_off_by_more_than_15_minutes_is_refused(kind: str, seconds: int) -> None:
    request = signed_by(SIGNERS[kind]())
    verify(request, at=after(NOW, seconds * 0.98))

    with pytest.raises(S3Error) as refused:
        verify(request, at=after(NOW, seconds))

    assert refused.value.code is Code.REQUEST_TIME_TOO_SKEWED
    assert refused.value.details["MaxAllowedSkewMilliseconds"] == "900000"


@pytest.mark.parametrize("kind", ["query v4", "query v2"])
def test_a_presigned_url_lives_as_long_as_it_says(kind: str) -> None:
    request = signed_by(SIGNERS[kind]())
    verify(request, at=after(NOW, 55))

    with pytest.raises(S3Error, match="Request has expired") as refused:
        verify(request, at=after(NOW, 62))

    assert refused.value.code is Code.ACCESS_DENIED


def test_a_presigned_url_of_the_future_is_not_valid_yet() -> None:
    with pytest.raises(S3Error, match="not valid yet"):
        verify(signed_by(SIGNERS["query v4"]()), at=after(NOW, -902))


@pytest.mark.parametrize(("expires", "is_good"), [(1, True), (604_800, True), (604_801, False), (0, False)])
def test_a_presigned_url_lives_from_a_second_to_a_week(expires: int, is_good: bool) -> None:
    request = signed_by(S3SigV4QueryAuth(CREDENTIALS, "s3", "eu-west-1", expires=expires))
    if is_good:
        verify(request, at=NOW)
        return

    with pytest.raises(S3Error) as refused:
        verify(request, at=NOW)

    assert refused.value.code is Code.AUTHORIZATION_QUERY_PARAMETERS_ERROR


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        ("header v4", Code.AUTHORIZATION_HEADER_MALFORMED),
        ("query v4", Code.AUTHORIZATION_QUERY_PARAMETERS_ERROR),
    ],
)
def test_a_configured_region_is_the_only_one_and_is_named(kind: str, code: Code) -> None:
    request = signed_by(SIGNERS[kind]())
    verify(request, region="eu-west-1")

    with pytest.raises(S3Error, match="expecting 'us-east-1'") as refused:
        verify(request, region="us-east-1")

    assert refused.value.code is code
    assert refused.value.details["Region"] == "us-east-1"


def test_headers_of_amazon_that_are_not_signed_are_named() -> None:
    request = _with_header(signed_by(SIGNERS["header v4"]()), "x-amz-copy-source", "lake/main/b")

    with pytest.raises(S3Error) as refused:
        verify(request)

    assert refused.value.code is Code.ACCESS_DENIED
    assert refused.value.details["HeadersNotSigned"] == "x-amz-copy-source"


def test_a_key_of_another_day_signs_nothing_today() -> None:
    request = signed_by(SIGNERS["header v4"]())
    signed = find_signature(request)
    assert isinstance(signed, SignedV4)
    yesterday = replace(signed, scope=replace(signed.scope, date="20231113"))
    canonical = canonical_request(
        method="GET",
        path=request.raw_path,
        query="",
        headers=request.headers,
        signed_headers=signed.signed_headers,
        payload=signed.payload,
    )
    key = signing_key(Secret(SECRET_TEXT), yesterday.scope)
    text = string_to_sign(canonical, stamp=signed.stamp, scope=yesterday.scope.text)
    forged = replace(yesterday, signature=hmac.digest(key, text.encode(), "sha256").hex())

    with pytest.raises(S3Error, match="Invalid credential date") as refused:
        verify_v4(request, forged, Secret(SECRET_TEXT), now=NOW)

    assert refused.value.code is Code.AUTHORIZATION_HEADER_MALFORMED


def test_a_query_is_sorted_by_name_before_value() -> None:
    assert sent_query("a-b=1&b&a=2&a=1", presigned=False) == "a=1&a=2&a-b=1&b="
    assert escaped_query("a-b=1&b&a=2&a=1", presigned=False) == "a=1&a=2&a-b=1&b="


def test_a_path_that_was_signed_escaped_and_sent_plain_is_accepted() -> None:
    request = signed_by(SIGNERS["header v4"](), target="/lake/main/a%3Db%40c?prefix=a%2Fb")

    verify(replace(_with_query(request, "prefix=a/b"), raw_path="/lake/main/a=b@c"))


def test_version_2_signs_the_bucket_that_the_host_names() -> None:
    request = signed_by(SIGNERS["header v2"](), target="/lake/main/a?acl")
    virtual = replace(request, raw_path="/main/a")

    verify(virtual, virtual_bucket="lake")
    with pytest.raises(S3Error):
        verify(virtual, virtual_bucket="pond")
    with pytest.raises(S3Error):
        verify(virtual)


def test_a_request_signed_twice_is_refused() -> None:
    presigned = signed_by(SIGNERS["query v4"]())
    in_header = signed_by(SIGNERS["header v4"]())

    with pytest.raises(S3Error, match="Only one auth mechanism"):
        find_signature(_with_query(in_header, presigned.raw_query))


@pytest.mark.parametrize(
    ("authorization", "code"),
    [
        ("AWS4-HMAC-SHA256 Credential=a/b/c/s3/aws4_request", Code.AUTHORIZATION_HEADER_MALFORMED),
        ("AWS4-HMAC-SHA256 Credential=k/d/s3/aws4_request, SignedHeaders=host, Signature=a", Code.AUTHORIZATION_HEADER_MALFORMED),
        ("AWS4-HMAC-SHA256 Credential=k/d/r/sts/aws4_request, SignedHeaders=host, Signature=a", Code.AUTHORIZATION_HEADER_MALFORMED),
        ("AWS4-HMAC-SHA256 Credential=k/d/r/s3/aws4, SignedHeaders=host, Signature=a", Code.AUTHORIZATION_HEADER_MALFORMED),
        ("AWS4-HMAC-SHA256 Credential=k/d/r/s3/aws4_request, SignedHeaders=Host, Signature=a", Code.AUTHORIZATION_HEADER_MALFORMED),
        ("AWS4-HMAC-SHA256", Code.AUTHORIZATION_HEADER_MALFORMED),
        ("AWS4-ECDSA-P256-SHA256 Credential=a", Code.INVALID_REQUEST),
        ("AWS key", Code.INVALID_ARGUMENT),
        ("Basic a2V5OnNlY3JldA==", Code.INVALID_ARGUMENT),
    ],
)  # fmt: skip
def test_a_malformed_header_is_refused_by_the_code_that_amazon_gives(authorization: str, code: Code) -> None:
    request = _with_header(signed_by(SIGNERS["header v4"]()), "authorization", authorization)

    with pytest.raises(S3Error) as refused:
        find_signature(request)

    assert refused.value.code is code


@pytest.mark.parametrize("kind", SIGNERS)
def test_a_signed_request_shows_that_it_was_meant_for_s3(kind: str) -> None:
    request = signed_by(SIGNERS[kind]())

    assert carries_signature(authorization=request.headers.get("authorization"), raw_query=request.raw_query)
    assert not carries_signature(authorization="Basic a2V5OnNlY3JldA==", raw_query="prefix=a")


def _mutations(request: Request) -> st.SearchStrategy[Request]:
    """One of the texts of a request with something cut out and something put in."""

    def edits(text: str) -> st.SearchStrategy[str]:
        positions = st.integers(0, len(text))
        filler = st.one_of(
            st.sampled_from(
                ["", "%", "&", "=", "+", "/", " ", ";", ",", "%2F", "\xa0", "é", "☃", "X-Amz-Date=1&"]
            ),
            st.text(max_size=3),
        )
        return st.builds(
            lambda a, n, new: text[:a] + new + text[a + n :], positions, st.integers(0, 3), filler
        )

    return st.one_of(
        edits(request.method).map(lambda text: replace(request, method=text)),
        edits(request.raw_path).map(lambda text: replace(request, raw_path=text)),
        edits(request.raw_query).map(lambda text: _with_query(request, text)),
        st.sampled_from(sorted(request.headers)).flatmap(
            lambda name: edits(request.headers[name]).map(lambda text: _with_header(request, name, text))
        ),
    )


def _meaning(request: Request) -> tuple[Any, ...]:
    unsigned = {"authorization", "user-agent", "content-length", "accept-encoding"}
    return (
        request.method,
        unquote_to_bytes(request.raw_path),
        sorted(p for p in parse_qsl(request.raw_query, keep_blank_values=True) if p[0] != "X-Amz-Signature"),
        {
            name: " ".join(part for part in value.replace("\t", " ").split(" ") if part)
            for name, value in request.headers.items()
            if name not in unsigned
        },
    )


def _with_query(request: Request, raw_query: str) -> Request:
    return replace(request, raw_query=raw_query, query=decoded(raw_query))


def _with_header(request: Request, name: str, value: str) -> Request:
    return replace(request, headers={**request.headers, name: value})
