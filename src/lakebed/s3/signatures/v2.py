"""Does a signature of version 2 hold? Pure: the secret and the time are given.

Version 2 signs the method, the path with its bucket, the sub-resources of the query, the
time and the x-amz headers; nothing of the body, and no other part of the query. Names and
values are decoded first, so that a sub-resource is signed however it is escaped.
"""

import hmac
from base64 import b64encode
from typing import Final
from urllib.parse import unquote_to_bytes

from lakebed.auth.secret import Secret
from lakebed.env.clock import SECOND, Instant
from lakebed.limits import S3_CLOCK_SKEW_SECONDS
from lakebed.objects.s3.sigv4 import stamp_of
from lakebed.s3.errors import Code, S3Error
from lakebed.s3.request import Request
from lakebed.s3.signatures.canonical import octets
from lakebed.s3.signatures.refusals import does_not_match, too_skewed
from lakebed.s3.signatures.scheme import SignedV2
from lakebed.s3.signatures.times import show
from lakebed.s3.signatures.verified import Verified

# Parameters that name something other than the object itself, or change what is answered.
SUB_RESOURCES: Final = frozenset(
    (
        "accelerate", "acl", "analytics", "cors", "defaultObjectAcl", "delete", "inventory", "lifecycle",
        "location", "logging", "metrics", "notification", "object-lock", "partNumber", "policy", "replication",
        "requestPayment", "response-cache-control", "response-content-disposition",
        "response-content-encoding", "response-content-language", "response-content-type",
        "response-expires", "restore", "select", "select-type", "storageClass", "tagging", "torrent",
        "uploadId", "uploads", "versionId", "versioning", "versions", "website",
    )
)  # fmt: skip
_SKEW: Final = S3_CLOCK_SKEW_SECONDS * SECOND


def verify_v2(
    request: Request, signed: SignedV2, secret: Secret, *, now: Instant, virtual_bucket: str | None = None
) -> Verified:
    """Return what is known of the request now. `virtual_bucket` is the bucket that the host names.

    Raises:
        S3Error: the signature does not hold, or not now.
    """
    _require_time(signed, now)
    text = _string_to_sign(request, signed, virtual_bucket)
    expected = b64encode(hmac.digest(secret.text.encode(), octets(text), "sha1"))
    if not hmac.compare_digest(expected, octets(signed.signature)):
        raise does_not_match(signed.access_key, signed.signature, text)
    return Verified(access_key=signed.access_key, payload=None)


def _require_time(signed: SignedV2, now: Instant) -> None:
    if signed.signed_at is not None and abs(now - signed.signed_at) > _SKEW:
        raise too_skewed(stamp_of(signed.signed_at), now)
    if signed.expires_at is not None and now > signed.expires_at * SECOND:
        raise S3Error(
            Code.ACCESS_DENIED, "Request has expired", Expires=str(signed.expires_at), ServerTime=show(now)
        )


def _string_to_sign(request: Request, signed: SignedV2, virtual_bucket: str | None) -> str:
    headers = request.headers
    amz = {name: value for name, value in headers.items() if name.startswith("x-amz-")}
    if signed.expires_at is not None:
        # Whoever opens a presigned URL cannot send headers, so signers put some into the query.
        amz = {name: value for name, _, value in _pairs(request) if name.startswith("x-amz-")} | amz
    lines = [
        request.method,
        headers.get("content-md5", "").strip(),
        headers.get("content-type", "").strip(),
        signed.date,
        *[f"{name}:{amz[name].strip()}" for name in sorted(amz)],
        _resource(request, virtual_bucket),
    ]
    return "\n".join(lines)


def _resource(request: Request, virtual_bucket: str | None) -> str:
    path = request.raw_path or "/"
    if virtual_bucket is not None:
        path = f"/{virtual_bucket}{path}"
    signed = sorted(pair for pair in _pairs(request) if pair[0] in SUB_RESOURCES)
    if not signed:
        return path
    return path + "?" + "&".join(map("".join, signed))


def _pairs(request: Request) -> list[tuple[str, str, str]]:
    """Return the query as names, equals signs and values, decoded: what is obeyed is what is signed."""
    parts = (part.partition("=") for part in request.raw_query.split("&"))
    return [(_plain(name), equals, _plain(value)) for name, equals, value in parts]


def _plain(text: str) -> str:
    # A plus is the space that it is obeyed as. As Latin-1, like everything else of the head: `octets` gives back the
    # bytes that were signed.
    return unquote_to_bytes(octets(text.replace("+", " "))).decode("latin-1")
