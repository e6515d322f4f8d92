"""Does a signature of version 2 hold? Pure: the secret and the time are given.

Version 2 signs the method, the path with its bucket, the sub-resources of the query, the
time and the x-amz headers; nothing of the body, and no other part of the query. Names and
values are decoded first, so that a sub-resource is signed however it is escaped.

Signers differ in three points, and Amazon takes what each of them makes. So a request may
have been signed as one of a few texts, which all mean the same request:

    an empty value        `?location=` is signed as it is sent, or as `?location` (minio-go)
    disputed names        botocore signs `object-lock`; minio-go does not, and signs `encryption` instead
    the path              as it is sent, or with every special character escaped
"""

import hmac
from base64 import b64encode
from collections.abc import Iterator
from itertools import product
from typing import Final
from urllib.parse import unquote_to_bytes

from lakebed.auth.secret import Secret
from lakebed.env.clock import SECOND, Instant
from lakebed.limits import S3_CLOCK_SKEW_SECONDS
from lakebed.objects.s3.sigv4 import stamp_of
from lakebed.s3.errors import Code, S3Error
from lakebed.s3.request import Request
from lakebed.s3.signatures.canonical import escaped_path, octets
from lakebed.s3.signatures.refusals import does_not_match, too_skewed
from lakebed.s3.signatures.scheme import SignedV2
from lakebed.s3.signatures.times import show
from lakebed.s3.signatures.verified import Verified

# Parameters that name something other than the object itself, or change what is answered.
SUB_RESOURCES: Final = frozenset(
    (
        "accelerate", "acl", "analytics", "cors", "defaultObjectAcl", "delete", "inventory", "lifecycle",
        "location", "logging", "metrics", "notification", "partNumber", "policy", "replication",
        "requestPayment", "response-cache-control", "response-content-disposition",
        "response-content-encoding", "response-content-language", "response-content-type",
        "response-expires", "restore", "select", "select-type", "storageClass", "tagging", "torrent",
        "uploadId", "uploads", "versionId", "versioning", "versions", "website",
    )
)  # fmt: skip
# Names that some signers sign and others do not. They choose no operation that writes: a test proves it.
DISPUTED: Final = frozenset(("encryption", "legal-hold", "object-lock", "retention"))
_SKEW: Final = S3_CLOCK_SKEW_SECONDS * SECOND


def verify_v2(
    request: Request, signed: SignedV2, secret: Secret, *, now: Instant, virtual_bucket: str | None = None
) -> Verified:
    """Return what is known of the request now. `virtual_bucket` is the bucket that the host names.

    Raises:
        S3Error: the signature does not hold, or not now.
    """
    _require_time(signed, now)
    sent = octets(signed.signature)
    texts = _texts_to_sign(request, signed, virtual_bucket)
    if not any(hmac.compare_digest(_signature(secret, text), sent) for text in texts):
        text = next(_texts_to_sign(request, signed, virtual_bucket))
        raise does_not_match(signed.access_key, signed.signature, text)
    return Verified(access_key=signed.access_key, payload=None)


def _signature(secret: Secret, text: str) -> bytes:
    return b64encode(hmac.digest(secret.text.encode(), octets(text), "sha1"))


def _require_time(signed: SignedV2, now: Instant) -> None:
    if signed.signed_at is not None and abs(now - signed.signed_at) > _SKEW:
        raise too_skewed(stamp_of(signed.signed_at), now)
    if signed.expires_at is not None and now > signed.expires_at * SECOND:
        raise S3Error(
            Code.ACCESS_DENIED, "Request has expired", Expires=str(signed.expires_at), ServerTime=show(now)
        )


def _texts_to_sign(request: Request, signed: SignedV2, virtual_bucket: str | None) -> Iterator[str]:
    """Yield the texts that a client may have signed, the usual one first."""
    headers = request.headers
    amz = {name: value for name, value in headers.items() if name.startswith("x-amz-")}
    pairs = _pairs(request)
    if signed.expires_at is not None:
        # Whoever opens a presigned URL cannot send headers, so signers put some into the query.
        amz = {name: value for name, _, value in pairs if name.startswith("x-amz-")} | amz
    head = "\n".join(
        [
            request.method,
            headers.get("content-md5", "").strip(),
            headers.get("content-type", "").strip(),
            signed.date,
            *[f"{name}:{amz[name].strip()}" for name in sorted(amz)],
            "",
        ]
    )
    for resource in _resources(request.raw_path or "/", pairs, virtual_bucket):
        yield head + resource


def _resources(path: str, pairs: list[tuple[str, str, str]], virtual_bucket: str | None) -> dict[str, None]:
    """Return the ways to write down what a request is about, each once."""
    bucket = "" if virtual_bucket is None else f"/{virtual_bucket}"
    sent = sorted(pair for pair in pairs if pair[0] in SUB_RESOURCES or pair[0] in DISPUTED)
    bare = [(name, equals if value else "", value) for name, equals, value in sent]
    queries = [
        "&".join("".join(pair) for pair in signed if with_disputed or pair[0] not in DISPUTED)
        for signed, with_disputed in product((sent, bare), (True, False))
    ]
    paths = (path, escaped_path(path))
    return {f"{bucket}{each}{'?' if query else ''}{query}": None for each, query in product(paths, queries)}


def _pairs(request: Request) -> list[tuple[str, str, str]]:
    """Return the query as names, equals signs and values, decoded: what is obeyed is what is signed."""
    parts = (part.partition("=") for part in request.raw_query.split("&"))
    return [(_plain(name), equals, _plain(value)) for name, equals, value in parts]


def _plain(text: str) -> str:
    # A plus is the space that it is obeyed as. As Latin-1, like everything else of the head: `octets` gives back the
    # bytes that were signed.
    return unquote_to_bytes(octets(text.replace("+", " "))).decode("latin-1")
