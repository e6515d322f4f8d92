"""What one worker answers by itself: under which names, to whom who logs out, and to bugs of its own."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from lakebed.api.cookies import LOGIN_COOKIE
from lakebed.http.front import SecureCookies
from lakebed.model.auth import KeyPair
from lakebed.server.asgi import WorkerApp
from lakebed.server.config import Config
from lakebed.server.plain_routes import PLAIN_ROUTES
from lakebed.testing.asgi import AsgiClient

PAIR = KeyPair(access_key_id="AKIAIOSFODNN7EXAMPLE", secret_access_key="hush" * 10)
OWN = {"host": "lake.example", "sec-fetch-site": "same-origin"}


@pytest.fixture
async def app(tmp_path: Path) -> AsyncIterator[WorkerApp]:
    """A worker behind a proxy, set up."""
    config = Config(
        data=tmp_path / "data",
        hosts=("lake.example",),
        trusted_proxies=("10.0.0.0/8",),
        secure_cookies=SecureCookies.AUTO,
    )
    started = WorkerApp(config)
    await started.start()
    assert started._services is not None
    await started._services.auth.setup.set_up("ann", pair=PAIR)
    yield started
    await started.stop()


def asking(app: Any, **headers: str) -> AsgiClient:
    return AsgiClient(app, root="", extra={name.replace("_", "-"): value for name, value in headers.items()})


async def logged_in(app: WorkerApp) -> str:
    body = {"access_key_id": PAIR.access_key_id, "secret_access_key": PAIR.secret_access_key}
    answer = await asking(app, **OWN)("POST", "/api/v1/auth/login", json=body)
    assert answer.status == 200
    return str(answer.json()["token"])


async def is_good(app: WorkerApp, token: str) -> bool:
    client = asking(app, authorization=f"Bearer {token}")
    return (await client("GET", "/api/v1/user")).status == 200


@pytest.mark.parametrize(
    ("host", "accepted"),
    [
        ("lake.example", True),
        ("lake.example:8443", True),
        ("10.0.0.5:8000", True),
        ("localhost:8000", True),
        ("evil.example", False),
        ("lake.example.evil.example", False),
    ],
)
async def test_a_server_with_names_answers_to_those_on_both_edges(
    app: WorkerApp, host: str, accepted: bool
) -> None:
    for path in ("/_ready", "/metrics", "/openapi.json", "/api/v1/healthcheck", "/logout"):
        assert ((await asking(app, host=host)("GET", path)).status != 421) == accepted
    signed = {"authorization": "AWS AKIA:x", "host": host}
    for edge in (app, app.s3):
        assert ((await asking(edge, **signed)("GET", "/lake/main/a")).status != 421) == accepted


async def test_a_request_without_a_host_is_no_browsers(app: WorkerApp) -> None:
    assert (await asking(app)("GET", "/_ready")).status == 200


@pytest.mark.parametrize(
    ("page", "ended"),
    [
        ({"sec-fetch-site": "same-origin"}, True),
        ({"sec-fetch-site": "none"}, True),
        ({"sec-fetch-site": "same-site"}, False),
        ({"sec-fetch-site": "cross-site"}, False),
        ({"origin": "https://lake.example"}, True),
        ({"origin": "https://evil.example"}, False),
        ({}, True),
    ],
)
async def test_logging_out_ends_the_token_for_the_servers_own_pages(
    app: WorkerApp, page: dict[str, str], ended: bool
) -> None:
    token = await logged_in(app)
    headers = {"host": "lake.example", "cookie": f"{LOGIN_COOKIE}={token}", **page}
    answer = await asking(app)("GET", "/logout", headers=headers)
    assert answer.status == (307 if ended else 403)
    assert ("set-cookie" in answer.headers) == ended
    assert await is_good(app, token) != ended


async def test_a_program_ends_its_session_with_the_token(app: WorkerApp) -> None:
    token, other = await logged_in(app), await logged_in(app)
    assert (await asking(app, authorization=f"Bearer {token}")("POST", "/logout")).status == 307
    assert not await is_good(app, token)
    assert await is_good(app, other)


@pytest.mark.parametrize("cookie", ["", f"{LOGIN_COOKIE}=x", f"{LOGIN_COOKIE}=e30.e30.e30", "other=1"])
async def test_logging_out_without_a_session_drops_the_cookie(app: WorkerApp, cookie: str) -> None:
    answer = await asking(app, cookie=cookie, **OWN)("GET", "/logout")
    assert (answer.status, answer.headers["location"]) == (307, "/auth/login")
    assert "Max-Age=0" in answer.headers["set-cookie"]


@pytest.mark.parametrize(("peer", "secure"), [("10.1.1.1", True), ("192.0.2.1", False)])
async def test_the_cookie_is_secure_if_a_trusted_proxy_says_https(
    app: WorkerApp, peer: str, secure: bool
) -> None:
    client = asking(app, x_forwarded_proto="https", **OWN)
    body = {"access_key_id": PAIR.access_key_id, "secret_access_key": PAIR.secret_access_key}
    for answer in (
        await client("POST", "/api/v1/auth/login", json=body, peer=peer),
        await client("GET", "/logout", peer=peer),
    ):
        assert ("Secure" in answer.headers["set-cookie"]) == secure


async def test_guesses_through_a_proxy_are_counted_for_the_client(app: WorkerApp) -> None:
    async def guess(client: str) -> int:
        body = {"access_key_id": PAIR.access_key_id, "secret_access_key": "wrong"}
        headers = {**OWN, "x-forwarded-for": client}
        return (
            await asking(app)("POST", "/api/v1/auth/login", json=body, headers=headers, peer="10.1.1.1")
        ).status

    assert [await guess("203.0.113.9") for _ in range(12)] == [401] * 10 + [429] * 2
    assert await guess("203.0.113.10") == 401


async def test_plain_routes_read_no_body(app: WorkerApp) -> None:
    async def receive() -> Any:
        raise AssertionError("nobody wants it")

    for path in (
        *PLAIN_ROUTES,
        b"/_health",
        b"/metrics",
        b"/openapi.json",
        b"/",
        b"/nothing",
        b"/api/v1/nothing",
    ):
        sent: list[Any] = []

        async def send(message: Any, sent: list[Any] = sent) -> None:
            sent.append(message)

        scope = {"type": "http", "method": "POST", "raw_path": path, "query_string": b"", "headers": []}
        await app(scope, receive, send)
        assert sent[0]["status"] < 500
        assert (b"x-content-type-options", b"nosniff") in sent[0]["headers"] or sent[0]["status"] == 307


async def test_a_bug_in_the_s3_edge_is_answered_in_xml_and_logged_by_its_place(
    app: WorkerApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Broken:
        async def admit(self, *_args: Any, **_options: Any) -> None:
            raise RuntimeError(f"the secret is {PAIR.secret_access_key}")

    assert app._s3 is not None
    services = app._s3._services
    broken = Broken()
    with capture_logs() as logged:
        object.__setattr__(services, "gate", broken)
        answer = await asking(app.s3, host="lake.example")("GET", "/lake/main/a")
    assert (answer.status, answer.headers["content-type"]) == (500, "application/xml")
    request_id = answer.headers["x-amz-request-id"]
    assert "<Code>InternalError</Code>" in answer.body.decode()
    assert f"<RequestId>{request_id}</RequestId>" in answer.body.decode()
    (line,) = [each for each in logged if each["event"] == "request_failed"]
    assert (line["request_id"], line["error"]) == (request_id, "RuntimeError")
    assert "in admit" in line["traceback"]
    assert PAIR.secret_access_key not in str(logged) + answer.body.decode()
