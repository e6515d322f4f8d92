"""What an anonymous client can make the server read, hold and decode: a few KiB each, over every operation of both edges."""

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

import pytest

from lakebed.api.app import ROOT, RestApp
from lakebed.api.operation import Access, Body, Operation
from lakebed.api.table import OPERATIONS
from lakebed.env.clock import SystemClock
from lakebed.env.work import InlineWorkers
from lakebed.http.held import HeldBodies, Hold
from lakebed.limits import (
    ANONYMOUS_BODY_BYTES_MAX,
    JSON_BODY_BYTES_MAX,
    JSON_VALUE_BYTES,
    SMALL_BODY_BYTES_MAX,
)
from lakebed.s3.app import S3App, S3Services
from lakebed.s3.operation import Level
from lakebed.s3.operation import Operation as S3Operation
from lakebed.s3.request import COPY_SOURCE
from lakebed.s3.signatures.gate import Gate
from lakebed.s3.table import OPERATIONS as S3_OPERATIONS
from lakebed.testing.asgi import basic
from lakebed.testing.rest import Rest, open_rest
from tests.api.samples import sample

CHUNK = 4096
MEBIBYTE = 1 << 20
# Credentials that nobody has, as far as each edge looks at them before it refuses them.
STRANGERS = {
    "nothing": {},
    "basic": {"authorization": basic("AKIAIOSFODNN7EXAMPLE", "wrong")},
    "bearer": {"authorization": "Bearer e30.e30.e30"},
    "cookie": {"cookie": "internal_auth_session=e30.e30.e30", "sec-fetch-site": "same-origin"},
}
S3_STRANGERS = {
    "nothing": {},
    "unknown key": {
        "authorization": "AWS4-HMAC-SHA256 Credential=AKIANOBODY/20260101/us-east-1/s3/aws4_request, "
        "SignedHeaders=host;x-amz-date, Signature=" + "0" * 64,
        "x-amz-date": "20260101T000000Z",
        "x-amz-content-sha256": "UNSIGNED-PAYLOAD",
    },
    "version 2": {"authorization": "AWS AKIANOBODY:AAAA", "date": "Thu, 01 Jan 2026 00:00:00 GMT"},
}


@dataclass
class Stranger:
    """Sends a body of a MiB, and counts how much of it anybody asks for."""

    app: Any
    held: HeldBodies
    asked_bytes: int = 0
    held_bytes: int = 0
    statuses: list[int] = field(default_factory=list)

    async def send(
        self, method: str, path: str, query: str, headers: Mapping[str, str], *, length: bool
    ) -> int:
        sent = {"host": "localhost", "content-type": "application/json", **headers}
        if length:
            sent["content-length"] = str(MEBIBYTE)
        scope = {
            "type": "http",
            "method": method,
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "headers": [(name.encode(), value.encode()) for name, value in sent.items()],
        }

        async def receive() -> Mapping[str, Any]:
            self.held_bytes = max(self.held_bytes, self.held.bytes)
            self.asked_bytes += CHUNK
            return {
                "type": "http.request",
                "body": b"[" * CHUNK,
                "more_body": self.asked_bytes < MEBIBYTE,
            }

        async def send(message: Mapping[str, Any]) -> None:
            self.statuses += [message["status"]] if "status" in message else []

        await self.app(scope, receive, send)
        return self.statuses[-1]


@pytest.fixture(scope="module")
async def rest() -> AsyncIterator[Rest]:
    async with open_rest() as opened:
        yield opened


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda each: each.id)
async def test_rest_asks_a_stranger_for_a_few_kib_at_most(rest: Rest, operation: Operation) -> None:
    held = rest.app._services.held
    asked = sample(operation)
    query = "&".join(f"{name}={value}" for name, value in asked.query.items())
    is_open = operation.access is Access.ANYONE
    takes_json = not isinstance(operation.body, Body)
    for credentials, length in product(STRANGERS.values(), (True, False)):
        stranger = Stranger(rest.app, held)
        status = await stranger.send(operation.method, ROOT + asked.url, query, credentials, length=length)
        assert stranger.asked_bytes <= (ANONYMOUS_BODY_BYTES_MAX + CHUNK if is_open and takes_json else 0)
        assert stranger.held_bytes <= ANONYMOUS_BODY_BYTES_MAX
        assert held.bytes == 0, "nothing is held after the answer"
        assert status == (400 if is_open and takes_json else status if is_open else 401)


@pytest.fixture(scope="module")
async def s3(rest: Rest) -> S3App:
    clock = SystemClock()
    return S3App(
        S3Services(
            sessions=rest.app._services.sessions,
            gate=Gate(rest.auth.authenticator, clock),
            clock=clock,
            workers=InlineWorkers(),
            process="test",
            region="us-east-1",
        )
    )


@pytest.mark.parametrize("operation", S3_OPERATIONS, ids=lambda each: each.name)
async def test_s3_asks_a_stranger_for_nothing(s3: S3App, operation: S3Operation) -> None:
    path = {Level.SERVICE: "/", Level.BUCKET: "/lake", Level.OBJECT: "/lake/main/a"}[operation.level]
    query = "&".join(f"{key}=1" for key in sorted(operation.keys))
    copied = {COPY_SOURCE: "lake/main/b"} if operation.is_copy else {}
    for credentials in S3_STRANGERS.values():
        stranger = Stranger(s3, s3._services.held)
        status = await stranger.send(operation.method, path, query, {**credentials, **copied}, length=True)
        assert (status, stranger.asked_bytes) == (403, 0)


async def test_a_body_with_more_values_than_are_decoded_quickly_is_refused(rest: Rest) -> None:
    most = JSON_BODY_BYTES_MAX // JSON_VALUE_BYTES
    entry = b'{"name":"x","source":"main","more":[' + b"0," * most + b"0]}"
    answer = await rest.admin(
        "POST", "/repositories/lake/branches", body=entry, headers={"content-type": "application/json"}
    )
    assert (answer.status, answer.headers["x-lakebed-error-kind"]) == (400, "too-large")
    few = b'{"name":"x","source":"main","more":[' + b"0," * (most - most // 50) + b"0]}"
    answer = await rest.admin(
        "POST", "/repositories/lake/branches", body=few, headers={"content-type": "application/json"}
    )
    assert answer.status == 201


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        ("application/json", 409),
        ("application/json; charset=utf-8", 409),
        ("Application/JSON;charset=UTF-8", 409),
        ("text/plain", 400),
        ("application/x-www-form-urlencoded", 400),
        ("multipart/form-data; boundary=x", 400),
        ("text/plain; application/json", 400),
        ("", 400),
    ],
)
async def test_a_json_body_says_that_it_is_json(rest: Rest, kind: str, status: int) -> None:
    body = b'{"name":"main","source":"main"}'
    headers = {"content-type": kind} if kind else {}
    answer = await rest.admin("POST", "/repositories/lake/branches", body=body, headers=headers)
    assert answer.status == status
    assert status == 409 or "Content-Type" in answer.detail


async def test_a_worker_that_holds_all_it_may_says_so_and_lets_go_of_everything(rest: Rest) -> None:
    held = HeldBodies(bytes_max=1000)
    client = rest.admin.as_user(rest.admin.authorization)
    client.app = RestApp(OPERATIONS, replace(rest.app._services, held=held))
    big = {"name": "held", "source": "main", "more": "x" * 1000}
    answer = await client("POST", "/repositories/lake/branches", json=big)
    assert (answer.status, answer.headers["x-lakebed-error-kind"]) == (503, "worker-busy")
    assert "retry-after" in answer.headers
    for options in (
        {"json": {}},
        {"json": {"name": "held", "source": "main"}},
        {"body": b"{", "hang_up": True},
    ):
        await client("POST", "/repositories/lake/branches", **options)
        assert held.bytes == 0


def test_large_bodies_leave_a_quarter_to_small_ones() -> None:
    held = HeldBodies(bytes_max=8 * SMALL_BODY_BYTES_MAX)
    large = Hold(held)
    large.take(6 * SMALL_BODY_BYTES_MAX)
    with pytest.raises(Exception, match="try again"):
        large.take(1)
    small = Hold(held)
    small.take(SMALL_BODY_BYTES_MAX)
    assert held.bytes == 7 * SMALL_BODY_BYTES_MAX
    large.release()
    small.release()
    assert held.bytes == 0
