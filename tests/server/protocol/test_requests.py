"""Requests as RFC 9112 has them, by raw bytes over a real socket."""

import socket
from collections.abc import Callable

import pytest
from structlog.testing import capture_logs

from tests.server.protocol.site import Site, answers, read_all

GET = b"GET /%b HTTP/1.1\r\nHost: a\r\n%b\r\n"


def get(path: bytes, *fields: bytes) -> bytes:
    return GET % (path, b"".join(field + b"\r\n" for field in fields))


def post(path: bytes, body: bytes, *fields: bytes) -> bytes:
    head = b"".join(field + b"\r\n" for field in fields)
    return b"POST /%b HTTP/1.1\r\nHost: a\r\n%bContent-Length: %d\r\n\r\n%b" % (path, head, len(body), body)


def chunked(path: bytes, *chunks: bytes, end: bytes = b"0\r\n\r\n") -> bytes:
    body = b"".join(b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in chunks)
    return b"POST /%b HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n%b%b" % (path, body, end)


def test_a_request_reaches_the_application_whole(site: Site) -> None:
    (answer,) = answers(site.talk(post(b"echo/a%20b?c=%2Fd&e", b"body", b"X-Name:  Value ")))
    said = answer.json()
    assert (said["method"], said["path"], said["query"]) == ("POST", "/echo/a%20b", "c=%2Fd&e")
    assert said["body"] == "body"
    assert ["x-name", "Value"] in said["headers"]


def test_a_chunked_body_arrives_joined_and_its_trailers_nowhere(site: Site) -> None:
    end = b"0\r\nX-Trailer: 1\r\nAuthorization: stolen\r\n\r\n"
    first, second = answers(site.talk(chunked(b"echo", b"one ", b"two", end=end) + get(b"echo")))
    assert first.json()["body"] == "one two"
    assert ["x-trailer", "1"] not in first.json()["headers"]
    assert second.json()["headers"] == [["host", "a"]]


def test_requests_that_are_sent_ahead_are_answered_in_order(site: Site) -> None:
    asked = [b"echo/%d" % number for number in range(50)]
    data = b"".join(get(path) if n % 3 else post(path, b"b" * n) for n, path in enumerate(asked))
    got = answers(site.talk(data))
    assert [answer.json()["path"].encode() for answer in got] == [b"/" + path for path in asked]
    assert [len(answer.json()["body"]) for answer in got] == [0 if n % 3 else n for n in range(50)]


@pytest.mark.parametrize(
    ("request_", "kept"),
    [
        (get(b"health"), True),
        (get(b"health", b"Connection: close"), False),
        (b"GET /health HTTP/1.0\r\n\r\n", False),
        (b"GET /health HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", True),
        (
            get(b"health", b"Connection: Upgrade, HTTP2-Settings", b"Upgrade: h2c", b"HTTP2-Settings: AAMA"),
            False,
        ),
        (get(b"health", b"Connection: Upgrade", b"Upgrade: websocket"), False),
        (get(b"health", b"Upgrade: h2c"), True),
        (b"\r\n" + get(b"health"), True),
    ],
)
def test_the_connection_is_kept_when_the_client_wants_it(site: Site, request_: bytes, kept: bool) -> None:
    with site.connect() as client:
        client.sendall(request_)
        received = b""
        while not received.endswith(b"fine"):
            received += client.recv(1000)
        (answer,) = answers(received)
        assert (answer.status, answer.headers.get("connection") == "close") == (200, not kept)
        if kept:
            client.sendall(get(b"health"))
            assert client.recv(1000).endswith(b"fine")
        else:
            assert client.recv(1000) == b""


@pytest.mark.parametrize("version", [b"1.0", b"1.1"])
def test_an_application_can_end_the_connection(site: Site, version: bytes) -> None:
    ask = b"GET /closing HTTP/%b\r\nHost: a\r\nConnection: keep-alive\r\n\r\n" % version
    received = site.talk(ask + ask)
    assert len(answers(received)) == 1
    assert received.lower().count(b"connection:") == 1


@pytest.mark.parametrize("size", [0, 5, 300_000])
@pytest.mark.parametrize("build", [post, chunked])
def test_a_body_that_comes_with_a_wish_for_another_protocol_is_a_body(
    site: Site, build: Callable[..., bytes], size: int
) -> None:
    body = (get(b"health") * (size // 30 + 1))[:size]
    wish = b"\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n"
    data = (build(b"echo", body) if size or build is post else chunked(b"echo")).replace(b"\r\n", wish, 1)
    (answer,) = answers(site.talk(data + get(b"health")))
    assert (answer.json()["body"].encode(), answer.headers["connection"]) == (body, "close")


def test_replies_have_a_date_and_a_length(site: Site) -> None:
    (answer,) = answers(site.talk(get(b"no_length")))
    assert answer.headers["date"].endswith(" GMT")
    assert (answer.headers["content-length"], answer.body) == ("5", b"hello")


def test_head_keeps_the_length_and_sends_no_body(site: Site) -> None:
    data = b"HEAD /health HTTP/1.1\r\nHost: a\r\n\r\n" + get(b"health")
    head, after = answers(site.talk(data), methods=["HEAD", "GET"])
    assert (head.headers["content-length"], head.body) == ("4", b"")
    assert after.body == b"fine"


@pytest.mark.parametrize("status", [204, 304])
def test_no_body_follows_a_status_that_has_none(site: Site, status: int) -> None:
    empty, after = answers(site.talk(get(b"empty?status=%d" % status) + get(b"health")))
    assert (empty.status, empty.body) == (status, b"")
    assert "transfer-encoding" not in empty.headers
    assert after.body == b"fine"


def test_a_reply_of_unknown_length_is_chunked_and_for_old_clients_ends_with_the_connection(
    site: Site,
) -> None:
    whole = b"one two " + b"x" * 100_000 + b" end"
    new, after = answers(site.talk(get(b"stream") + get(b"health")))
    assert (new.headers["transfer-encoding"], new.body) == ("chunked", whole)
    assert after.body == b"fine"
    (old,) = answers(site.talk(b"GET /stream HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"))
    assert "transfer-encoding" not in old.headers
    assert (old.headers["connection"], old.body) == ("close", whole)


def test_a_client_is_told_to_go_on_when_its_body_is_wanted(site: Site) -> None:
    with site.connect() as client:
        client.sendall(b"POST /echo HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n")
        assert client.recv(1000) == b"HTTP/1.1 100 Continue\r\n\r\n"
        client.sendall(b"body")
        client.shutdown(socket.SHUT_WR)
        (answer,) = answers(read_all(client))
    assert (answer.json()["body"], "connection" in answer.headers) == ("body", False)


@pytest.mark.parametrize("path", [b"early", b"fail"])
def test_a_client_that_is_refused_is_not_told_to_go_on(site: Site, path: bytes) -> None:
    with site.connect() as client:
        client.sendall(
            b"POST /%b HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n" % path
        )
        (answer,) = answers(read_all(client))
    assert answer.status in (403, 500)
    assert answer.headers["connection"] == "close"


def test_a_body_that_came_unasked_needs_no_word(site: Site) -> None:
    (answer,) = answers(site.talk(post(b"echo", b"body", b"Expect: 100-continue")))
    assert answer.json()["body"] == "body"


def test_a_small_body_that_nobody_reads_does_not_end_the_connection(site: Site) -> None:
    data = post(b"early", b"x" * 200_000) + chunked(b"early", b"GET /echo HTTP/1.1\r\n\r\n") + get(b"health")
    assert [answer.status for answer in answers(site.talk(data))] == [403, 403, 200]


@pytest.mark.parametrize(
    "data",
    [
        post(b"early", b"x" * 3_000_000),
        chunked(b"early", *[b"x" * 100_000] * 30),
    ],
    ids=["sized", "chunked"],
)
def test_a_large_body_that_nobody_reads_ends_the_connection_after_the_answer(site: Site, data: bytes) -> None:
    got = answers(site.talk(data + get(b"health")))
    assert [answer.status for answer in got] == [403]


def test_an_application_that_fails_is_answered_for_and_the_server_goes_on(site: Site) -> None:
    for path, why in ((b"fail", "RuntimeError"), (b"silent", "without a reply"), (b"long", "ValueError")):
        with capture_logs() as logged:
            (answer,) = answers(site.talk(get(path, b"X-Request-ID: mine") + get(b"health")))
        (event,) = [each for each in logged if each["event"] == "request_failed"]
        assert (event["request_id"], event["path"]) == ("mine", f"/{path.decode()}")
        assert why in event["error"]
        assert "planned1" not in str(event), "what an error says may be secret"
        assert (answer.status, answer.json()) == (500, {"message": "internal error"})
        assert (answer.headers["x-request-id"], answer.headers["connection"]) == ("mine", "close")


@pytest.mark.parametrize("path", [b"fail_late", b"short"])
def test_a_reply_that_breaks_off_does_not_look_whole(site: Site, path: bytes) -> None:
    received = site.talk(get(path) + get(b"health"))
    assert received == b"" or received.endswith(b"\r\n\r\nbegun")


def test_no_value_of_a_header_can_end_its_line(site: Site) -> None:
    first, second = answers(site.talk(get(b"split") + get(b"health")))
    assert first.headers["content-type"] == "a  x-evil: 1    body "
    assert (first.body, second.body) == (b"ok", b"fine")
