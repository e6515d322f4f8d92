"""AWS signature version 4, for headers and for presigned URLs. Pure."""

import hashlib
import hmac
from collections.abc import Mapping
from urllib.parse import quote

from lakebed.env.clock import Instant
from lakebed.objects.s3.place import S3Place
from lakebed.objects.s3.sigv4 import ALGORITHM, UNSIGNED_PAYLOAD, derived_key, stamp_of


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
    stamp = stamp_of(now)
    body_hash = UNSIGNED_PAYLOAD if body is None else hashlib.sha256(body).hexdigest()
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
        f"{ALGORITHM} Credential={credential}, SignedHeaders={names}, Signature={signature}"
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
    stamp = stamp_of(now)
    signed = {
        **(query or {}),
        "X-Amz-Algorithm": ALGORITHM,
        "X-Amz-Credential": f"{place.credentials.access_key_id}/{_scope(place, stamp)}",
        "X-Amz-Date": stamp,
        "X-Amz-Expires": str(seconds),
        "X-Amz-SignedHeaders": "host",
    }
    if place.credentials.session_token:
        signed["X-Amz-Security-Token"] = place.credentials.session_token
    signature = _signature(
        place,
        method,
        path,
        query=signed,
        headers={"host": place.host},
        body_hash=UNSIGNED_PAYLOAD,
        stamp=stamp,
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
    scope = _scope(place, stamp)
    text = f"{ALGORITHM}\n{stamp}\n{scope}\n{digest}"
    key = derived_key(place.credentials.secret_access_key, scope.encode())
    return hmac.digest(key, text.encode(), "sha256").hex()


def _scope(place: S3Place, stamp: str) -> str:
    return f"{stamp[:8]}/{place.region}/s3/aws4_request"


def _escape(text: str) -> str:
    return quote(text, safe="-._~")
