"""Bytes that are no request, or two at once: refused, and the connection ends."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lakebed.limits import HTTP_FIELDS_MAX, HTTP_HEAD_BYTES_MAX, HTTP_TARGET_BYTES_MAX
from tests.server.protocol.site import Site, answers

SMUGGLED = b"GET /health HTTP/1.1\r\nHost: a\r\n\r\n"


def head(*fields: bytes, line: bytes = b"POST /echo HTTP/1.1", host: bytes = b"Host: a\r\n") -> bytes:
    return line + b"\r\n" + host + b"".join(field + b"\r\n" for field in fields) + b"\r\n"


BROKEN = {
    "both lengths": head(b"Content-Length: 5", b"Transfer-Encoding: chunked") + b"0\r\n\r\n",
    "both lengths, turned": head(b"Transfer-Encoding: chunked", b"Content-Length: 5") + b"0\r\n\r\n",
    "two lengths": head(b"Content-Length: 5", b"Content-Length: 6") + b"x" * 5,
    "the same length twice": head(b"Content-Length: 5", b"Content-Length: 5") + b"x" * 5,
    "lengths in a list": head(b"Content-Length: 5, 5") + b"x" * 5,
    "signed length": head(b"Content-Length: +5") + b"x" * 5,
    "negative length": head(b"Content-Length: -5"),
    "empty length": head(b"Content-Length:"),
    "length without end": head(b"Content-Length: " + b"9" * 40),
    "hexadecimal length": head(b"Content-Length: 0x5") + b"x" * 5,
    "gzip": head(b"Transfer-Encoding: gzip, chunked") + b"0\r\n\r\n",
    "chunked before gzip": head(b"Transfer-Encoding: chunked, gzip") + b"0\r\n\r\n",
    "nearly chunked": head(b"Transfer-Encoding: xchunked") + b"0\r\n\r\n",
    "chunked twice": head(b"Transfer-Encoding: chunked", b"Transfer-Encoding: chunked") + b"0\r\n\r\n",
    "identity": head(b"Transfer-Encoding: identity"),
    "chunked in 1.0": head(b"Transfer-Encoding: chunked", line=b"POST /echo HTTP/1.0") + b"0\r\n\r\n",
    "folded line": head(b"X-A: b\r\n c"),
    "folded first line": head(host=b" Host: a\r\n"),
    "bare CR": head(b"X-A: b\rX-B: c"),
    "bare LF": head(b"X-A: b\nX-B: c"),
    "only LF": b"GET /health HTTP/1.1\nHost: a\n\n",
    "space before the colon": head(b"Content-Length : 5") + b"x" * 5,
    "tab before the colon": head(b"Content-Length\t: 5") + b"x" * 5,
    "name that is not ASCII": head(b"\xc3\xa4: b"),
    "NUL in a name": head(b"X\0A: b"),
    "NUL in a value": head(b"X-A: b\0c"),
    "no name": head(b": b"),
    "no colon": head(b"X-A"),
    "no host": head(host=b""),
    "two hosts": head(b"Host: b"),
    "absolute target": head(line=b"GET http://a/health HTTP/1.1"),
    "target without a slash": head(line=b"GET health HTTP/1.1"),
    "asterisk": head(line=b"OPTIONS * HTTP/1.1"),
    "fragment": head(line=b"GET /health#x HTTP/1.1"),
    "target that is not ASCII": head(line=b"GET /\xc3\xa4 HTTP/1.1"),
    "NUL in the target": head(line=b"GET /\0 HTTP/1.1"),
    "space in the target": head(line=b"GET /a b HTTP/1.1"),
    "CONNECT": head(line=b"CONNECT a:1 HTTP/1.1"),
    "CONNECT to a path": head(line=b"CONNECT /health HTTP/1.1"),
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "HTTP/2.0": head(line=b"GET /health HTTP/2.0"),
    "HTTP/0.9": b"GET /health\r\n\r\n",
    "HTTP/1.2": head(line=b"GET /health HTTP/1.2"),
    "HTTP/9.9": head(line=b"GET /health HTTP/9.9"),
    "TLS": bytes.fromhex("16030100c5010000c1030300"),
}
CHUNKS = {
    "no number": b"zz\r\n",
    "negative": b"-1\r\nx\r\n0\r\n\r\n",
    "signed": b"+1\r\nx\r\n0\r\n\r\n",
    "0x": b"0x1\r\nx\r\n0\r\n\r\n",
    "too large": b"f" * 17 + b"\r\n",
    "empty": b"\r\nx\r\n0\r\n\r\n",
    "space": b"1 \r\nx\r\n0\r\n\r\n",
    "only LF": b"1\nx\n0\n\n",
    "longer than it says": b"1\r\nxy\r\n0\r\n\r\n",
    "LF in an extension": b"1;a\nb\r\nx\r\n0\r\n\r\n",
    "CR in an extension": b"1;a\rb\r\nx\r\n0\r\n\r\n",
    "broken trailer": b"0\r\nX : y\r\n\r\n",
}


@pytest.mark.parametrize("data", BROKEN.values(), ids=BROKEN)
def test_what_could_be_read_in_two_ways_is_refused_and_nothing_after_it_is_read(
    site: Site, data: bytes
) -> None:
    (answer,) = answers(site.talk(data + SMUGGLED))
    assert answer.status in (400, 405)
    assert answer.headers["connection"] == "close"
    assert answer.json()["message"]


@pytest.mark.parametrize("data", CHUNKS.values(), ids=CHUNKS)
def test_a_body_with_a_broken_chunk_is_refused_and_the_application_hears_that_it_ends(
    site: Site, data: bytes
) -> None:
    (answer,) = answers(site.talk(head(b"Transfer-Encoding: chunked") + data + SMUGGLED))
    assert (answer.status, answer.headers["connection"]) == (400, "close")
    assert site.app.seen.gone.wait(20)


def test_requests_before_a_broken_one_are_answered_first(site: Site) -> None:
    got = answers(site.talk(SMUGGLED + SMUGGLED + BROKEN["both lengths"] + SMUGGLED))
    assert [answer.status for answer in got] == [200, 200, 400]
    broken_body = head(b"Transfer-Encoding: chunked") + CHUNKS["no number"]
    got = answers(site.talk(SMUGGLED + broken_body + SMUGGLED))
    assert [answer.status for answer in got] == [200, 400]


def test_an_unknown_method_is_405(site: Site) -> None:
    (answer,) = answers(site.talk(head(line=b"BREW /health HTTP/1.1")))
    assert answer.status == 405


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (head(b"X-A: " + b"x" * (HTTP_HEAD_BYTES_MAX - 100)), 200),
        (head(b"X-A: " + b"x" * HTTP_HEAD_BYTES_MAX), 431),
        (head(*[b"X-%d: %b" % (n, b"x" * 8000) for n in range(9)]), 431),
        (head(b"X-A: " + b"x" * 3_000_000), 431),
        (b"GET /echo HTTP/1.1\r\nX-A: " + b"x" * 3_000_000, 431),
        (b"GET /echo HTTP/1.1\r\n" + b"x" * 3_000_000, 431),
        (head(*[b"X-%d: x" % n for n in range(HTTP_FIELDS_MAX - 1)]), 200),
        (head(*[b"X-%d: x" % n for n in range(HTTP_FIELDS_MAX)]), 431),
        (head(*[b"X: x"] * HTTP_FIELDS_MAX), 431),
        (head(line=b"GET /echo?" + b"x" * (HTTP_TARGET_BYTES_MAX - 10) + b" HTTP/1.1"), 200),
        (head(line=b"GET /echo?" + b"x" * HTTP_TARGET_BYTES_MAX + b" HTTP/1.1"), 414),
        (b"GET /" + b"x" * 3_000_000, 414),
        (head(b"Transfer-Encoding: chunked") + b"1;" + b"x" * 3_000_000, 400),
        (head(b"Transfer-Encoding: chunked") + b"0\r\nX: " + b"x" * 3_000_000, 400),
        (head(b"Transfer-Encoding: chunked") + b"0\r\n" + b"X: y\r\n" * 500_000, 400),
    ],
)
def test_a_head_has_an_end_and_so_has_what_comes_between_chunks(site: Site, data: bytes, status: int) -> None:
    got = answers(site.talk(data))
    assert [answer.status for answer in got] == [status]


def test_a_large_body_before_a_head_does_not_count_as_head(site: Site) -> None:
    body = head(b"Content-Length: 500000") + b"x" * 500_000
    got = answers(site.talk((body + SMUGGLED) * 3))
    assert [answer.status for answer in got] == [200] * 6


TOKENS = st.sampled_from(
    [
        *(
            b"\r\n",
            b"\n",
            b"\r",
            b" ",
            b"\t",
            b":",
            b"\0",
            b"\xff",
            b";",
            b",",
            b"0",
            b"3",
            b"abc",
            b"ffffffff",
        ),
        *(b"GET", b"POST", b"/", b"HTTP/1.1", b"HTTP/1.0", b"GET / HTTP/1.1\r\n", b"Host: a", SMUGGLED),
        *(b"Content-Length", b"Content-Length: 3", b"Transfer-Encoding: chunked", b"0\r\n\r\n"),
        *(b"Connection: close", b"Connection: upgrade", b"Upgrade: x", b"Expect: 100-continue"),
    ]
)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(TOKENS | st.binary(max_size=8), max_size=20).map(b"".join))
def test_noise_is_answered_with_4xx_or_not_at_all(site: Site, data: bytes) -> None:
    received = site.talk(data)
    statuses = [line.split()[1] for line in received.split(b"\r\n") if line.startswith(b"HTTP/1.1 ")]
    assert all(status < b"500" for status in statuses), received
    assert answers(site.talk(SMUGGLED))[0].body == b"fine"
