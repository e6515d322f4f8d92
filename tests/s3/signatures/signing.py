"""Requests that botocore signed, as the S3 endpoint sees them."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from datetime import UTC, datetime
from email.utils import format_datetime
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch
from urllib.parse import parse_qsl, urlsplit

from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from lakebed.auth.secret import Secret
from lakebed.env.clock import SECOND, Instant
from lakebed.env.work import InlineWorkers
from lakebed.s3.request import Request
from lakebed.s3.signatures.body import Body, BodyPlan
from lakebed.s3.signatures.scheme import SignedV4, find_signature
from lakebed.s3.signatures.v2 import verify_v2
from lakebed.s3.signatures.v4 import verify_v4
from lakebed.s3.signatures.verified import Verified

ACCESS_KEY = "AKIAIOSFOLQUICKSTART"
SECRET_TEXT = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
CREDENTIALS = Credentials(ACCESS_KEY, SECRET_TEXT)
ORIGIN = "http://lake.example:8000"


NOW = Instant(1_700_000_000 * SECOND)
_MOMENT = datetime.fromtimestamp(NOW // SECOND, UTC)


def signed_by(
    signer: Any,
    *,
    method: str = "GET",
    target: str = "/lake/main/a",
    headers: Mapping[str, str] | None = None,
    body: bytes = b"",
) -> Request:
    """Return a request that `signer` of botocore has signed."""
    request = AWSRequest(method=method, url=ORIGIN + target, headers=dict(headers or {}), data=body)
    with (
        patch("botocore.auth.get_current_datetime", lambda: _MOMENT),
        patch("botocore.auth.formatdate", lambda **_: format_datetime(_MOMENT, usegmt=True)),
        patch("botocore.auth.time", SimpleNamespace(time=lambda: NOW / SECOND)),
    ):
        signer.add_auth(request)
    prepared = request.prepare()
    return as_seen(method, prepared.url, {**dict(prepared.headers.items()), "host": urlsplit(ORIGIN).netloc})


def as_seen(method: str, url: str, headers: Mapping[str, Any]) -> Request:
    # Not urlsplit: it drops characters that a fuzzer puts in.
    path, _, query = ("/" + url.split("/", 3)[3]).partition("?")
    texts = {
        name.lower(): value.decode("latin-1") if isinstance(value, bytes) else value
        for name, value in headers.items()
    }
    return Request(method=method, raw_path=path, raw_query=query, headers=texts, query=decoded(query))


def decoded(query: str) -> dict[str, str]:
    first: dict[str, str] = {}
    for name, value in parse_qsl(query, keep_blank_values=True):
        first.setdefault(name, value)
    return first


def verify(
    request: Request,
    *,
    at: Instant = NOW,
    region: str | None = None,
    virtual_bucket: str | None = None,
) -> Verified:
    """Verify by the secret of these tests."""
    signed = find_signature(request)
    assert signed is not None
    if isinstance(signed, SignedV4):
        return verify_v4(request, signed, Secret(SECRET_TEXT), now=at, region=region)
    return verify_v2(request, signed, Secret(SECRET_TEXT), now=at, virtual_bucket=virtual_bucket)


def read(plan: BodyPlan, pieces: Iterable[bytes]) -> tuple[bytes, Body]:
    """Return the payload of a body that comes in `pieces`."""

    async def raw() -> AsyncIterator[bytes]:
        for piece in pieces:
            yield piece

    async def whole() -> tuple[bytes, Body]:
        body = plan.open(raw(), workers=InlineWorkers())
        return b"".join([piece async for piece in body]), body

    return asyncio.run(whole())
