"""AWS signature version 4, for headers and for presigned URLs. Pure."""

import hashlib
import hmac
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final
from urllib.parse import quote

from lakebed.env.clock import SECOND, Instant
from lakebed.objects.s3.place import S3Credentials, S3Place

_ALGORITHM: Final = "AWS4-HMAC-SHA256"
_UNSIGNED: Final = "UNSIGNED-PAYLOAD"


def signed_headers(
    place: S3Place,
    method: str,
    path: str,
    *,
    query: Mapping[str, str],
    headers: Mapping[str, str],
    body: bytes | None,
    now: Instant,
) -> dict[str, str]:
    """Return `headers` with those that prove who sends the request, and that `body` is what was sent.

    Of a body that is None, because it comes in pieces, nothing is proven.
    """
    stamp = _stamp(now)
    body_hash = _UNSIGNED if body is None else hashlib.sha256(body).hexdigest()
    all_headers = {
        **{name.lower(): value for name, value in headers.items()},
        "host": place.host,
        "x-amz-content-sha256": body_hash,
        "x-amz-date": stamp,
    }
    if place.credentials.session_token:
        all_headers["x-amz-security-token"] = place.credentials.session_token
    names = ";".join(sorted(all_headers))
    signature = _signature(
        place, method, path, query=query, headers=all_headers, body_hash=body_hash, stamp=stamp
    )
    credential = f"{place.credentials.access_key_id}/{_scope(place, stamp)}"
    all_headers["authorization"] = (
        f"{_ALGORITHM} Credential={credential}, SignedHeaders={names}, Signature={signature}"
    )
    return all_headers


def presigned_url(
    place: S3Place,
    method: str,
    path: str,
    *,
    seconds: int,
    now: Instant,
    query: Mapping[str, str] | None = None,
) -> str:
    """Return a URL that lets anyone send `method` to `path` with `query` until it expires."""
    stamp = _stamp(now)
    signed = {
        **(query or {}),
        "X-Amz-Algorithm": _ALGORITHM,
        "X-Amz-Credential": f"{place.credentials.access_key_id}/{_scope(place, stamp)}",
        "X-Amz-Date": stamp,
        "X-Amz-Expires": str(seconds),
        "X-Amz-SignedHeaders": "host",
    }
    if place.credentials.session_token:
        signed["X-Amz-Security-Token"] = place.credentials.session_token
    signature = _signature(
        place, method, path, query=signed, headers={"host": place.host}, body_hash=_UNSIGNED, stamp=stamp
    )
    scheme = "https" if place.is_encrypted else "http"
    return f"{scheme}://{place.host}{path}?{query_text(signed)}&X-Amz-Signature={signature}"


def query_text(query: Mapping[str, str]) -> str:
    """Return `query` as it is signed and sent: sorted, everything escaped."""
    return "&".join(f"{_escape(name)}={_escape(query[name])}" for name in sorted(query))


def _signature(
    place: S3Place,
    method: str,
    path: str,
    *,
    query: Mapping[str, str],
    headers: Mapping[str, str],
    body_hash: str,
    stamp: str,
) -> str:
    names = sorted(headers)
    request = "\n".join(
        [
            method,
            path,
            query_text(query),
            *[f"{name}:{headers[name].strip()}" for name in names],
            "",
            ";".join(names),
            body_hash,
        ]
    )
    digest = hashlib.sha256(request.encode()).hexdigest()
    text = "\n".join([_ALGORITHM, stamp, _scope(place, stamp), digest])
    return hmac.new(_key(place.credentials, place.region, stamp), text.encode(), hashlib.sha256).hexdigest()


def _key(credentials: S3Credentials, region: str, stamp: str) -> bytes:
    key = f"AWS4{credentials.secret_access_key}".encode()
    for text in (stamp[:8], region, "s3", "aws4_request"):
        key = hmac.digest(key, text.encode(), "sha256")
    return key


def _scope(place: S3Place, stamp: str) -> str:
    return f"{stamp[:8]}/{place.region}/s3/aws4_request"


def _stamp(now: Instant) -> str:
    return datetime.fromtimestamp(now / SECOND, UTC).strftime("%Y%m%dT%H%M%SZ")


def _escape(text: str) -> str:
    return quote(text, safe="-._~")
