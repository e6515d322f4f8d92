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
    "tab in the first line": head(line=b"GET\t/health HTTP/1.1"),
    "space before the method": head(line=b" GET /health HTTP/1.1"),
    "lower-case method": head(line=b"get /health HTTP/1.1"),
    "lower-case protocol": head(line=b"GET /health http/1.1"),
    "version without a dot": head(line=b"GET /health HTTP/11"),
    "version with three parts": head(line=b"GET /health HTTP/1.1.1"),
    "version with a plus": head(line=b"GET /health HTTP/1.+1"),
    "HTTP/1.10": head(line=b"GET /health HTTP/1.10"),
    "HTTP/01.1": head(line=b"GET /health HTTP/01.1"),
    "ICE": head(line=b"GET /health ICE/1.0"),
    "space behind the version": head(line=b"GET /health HTTP/1.1 "),
    "CR before the version": head(line=b"GET /health\rHTTP/1.1"),
    "no version and a header": b"GET /health\r\nHost: a\r\n\r\n",
    "empty first line in the head": b"\r\n \r\nGET /health HTTP/1.1\r\nHost: a\r\n\r\n",
    "DEL in the target": head(line=b"GET /\x7f HTTP/1.1"),
    "CR in the target": head(line=b"GET /a\rb HTTP/1.1"),
    "tab in the target": head(line=b"GET /a\tb HTTP/1.1"),
    "authority target": head(line=b"GET a:80 HTTP/1.1"),
    "https target": head(line=b"GET https://a/ HTTP/1.1"),
    "backslash target": head(line=b"GET \\health HTTP/1.1"),
    "vertical tab in a value": head(b"X-A: b\x0bc"),
    "form feed in a value": head(b"X-A: b\x0cc"),
    "DEL in a value": head(b"X-A: b\x7fc"),
    "escape in a value": head(b"X-A: b\x1bc"),
    "bell in a name": head(b"X\x07A: b"),
    "space in a name": head(b"X A: b"),
    "comma in a name": head(b"X,A: b"),
    "semicolon in a name": head(b"X;A: b"),
    "slash in a name": head(b"X/A: b"),
    "bracket in a name": head(b"X[A: b"),
    "quote in a name": head(b'X"A: b'),
    "at in a name": head(b"X@A: b"),
    "equals in a name": head(b"X=A: b"),
    "name begins with a space": head(b" X-A: b"),
    "name begins with a tab": head(b"\tX-A: b"),
    "tab folded line": head(b"X-A: b\r\n\tc"),
    "folded length": head(b"Content-Length:\r\n 5") + b"x" * 5,
    "folded encoding": head(b"Transfer-Encoding:\r\n chunked") + b"0\r\n\r\n",
    "folded host": head(host=b"Host:\r\n a\r\n"),
    "CR CR LF": head(b"X-A: b\r"),
    "LF CR": b"GET /health HTTP/1.1\n\rHost: a\n\r\n\r",
    "CR only": b"GET /health HTTP/1.1\rHost: a\r\r",
    "LF ends the head": b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 0\n\n",
    "length with a point": head(b"Content-Length: 5.0") + b"x" * 5,
    "length with an exponent": head(b"Content-Length: 5e0") + b"x" * 5,
    "two numbers": head(b"Content-Length: 5 5") + b"x" * 5,
    "length in quotes": head(b'Content-Length: "5"') + b"x" * 5,
    "length with an underscore": head(b"Content-Length: 1_0") + b"x" * 10,
    "length with a semicolon": head(b"Content-Length: 5;a") + b"x" * 5,
    "full-width length": head("Content-Length: \uff15".encode()) + b"x" * 5,
    "length in other case twice": head(b"content-length: 5", b"CONTENT-LENGTH: 5") + b"x" * 5,
    "length of 2 to the 64": head(b"Content-Length: 18446744073709551616"),
    "length of 2 to the 64 and 5": head(b"Content-Length: 18446744073709551621") + b"x" * 5,
    "vertical tab before chunked": head(b"Transfer-Encoding: \x0bchunked") + b"0\r\n\r\n",
    "chunked in quotes": head(b'Transfer-Encoding: "chunked"') + b"0\r\n\r\n",
    "chunked with a parameter": head(b"Transfer-Encoding: chunked;a=b") + b"0\r\n\r\n",
    "chunked and a comma": head(b"Transfer-Encoding: chunked,") + b"0\r\n\r\n",
    "comma and chunked": head(b"Transfer-Encoding: ,chunked") + b"0\r\n\r\n",
    "chunked in a list twice": head(b"Transfer-Encoding: chunked, chunked") + b"0\r\n\r\n",
    "identity and chunked": head(b"Transfer-Encoding: identity, chunked") + b"0\r\n\r\n",
    "identity beside chunked": head(b"Transfer-Encoding: identity", b"Transfer-Encoding: chunked")
    + b"0\r\n\r\n",
    "empty encoding": head(b"Transfer-Encoding:") + b"0\r\n\r\n",
    "chunk": head(b"Transfer-Encoding: chunk") + b"0\r\n\r\n",
    "chunked with a NUL": head(b"Transfer-Encoding: chunked\0") + b"0\r\n\r\n",
    "space before the colon of an encoding": head(b"Transfer-Encoding : chunked") + b"0\r\n\r\n",
    "space before the colon of a host": head(host=b"Host : a\r\n"),
    "expect twice": head(b"Expect: 100-continue", b"Expect: 100-continue", b"Content-Length: 0"),
    "empty host twice": head(b"Host:", host=b"Host:\r\n"),
    "TRACE": head(line=b"TRACE * HTTP/1.1"),
    "SSH": b"SSH-2.0-OpenSSH_9.2\r\n",
    "SMTP": b"EHLO a\r\n",
    "SOCKS": b"\x05\x01\x00\r\n\r\n",
    "redis": b"*1\r\n$4\r\nPING\r\n",
    "HTTP reply": b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
    "UTF-16": "GET /health HTTP/1.1\r\nHost: a\r\n\r\n".encode("utf-16"),
    "BOM": b"\xef\xbb\xbf" + head(line=b"GET /health HTTP/1.1"),
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
    "negative zero": b"-0\r\n\r\n",
    "underscore": b"1_0\r\n" + b"x" * 16 + b"\r\n0\r\n\r\n",
    "tab": b"\t1\r\nx\r\n0\r\n\r\n",
    "space before": b" 1\r\nx\r\n0\r\n\r\n",
    "no CRLF behind the data": b"1\r\nx0\r\n\r\n",
    "LF behind the data": b"1\r\nx\n0\r\n\r\n",
    "CR behind the data": b"1\r\nx\r0\r\n\r\n",
    "LF behind the size": b"1\nx\r\n0\r\n\r\n",
    "CR behind the size": b"1\rx\r\n0\r\n\r\n",
    "NUL in an extension": b"1;a\0b\r\nx\r\n0\r\n\r\n",
    "NUL in the size": b"1\0\r\nx\r\n0\r\n\r\n",
    "comma": b"1,1\r\nx\r\n0\r\n\r\n",
    "h": b"1h\r\nx\r\n0\r\n\r\n",
    "2 to the 64": b"10000000000000000\r\n",
    "2 to the 64 and 1": b"10000000000000001\r\nx\r\n0\r\n\r\n",
    "full width": "\uff11\r\nx\r\n0\r\n\r\n".encode(),
    "folded trailer": b"0\r\nX: y\r\n z\r\n\r\n",
    "NUL in a trailer": b"0\r\nX: \0\r\n\r\n",
    "LF in a trailer": b"0\r\nX: y\nZ: 1\r\n\r\n",
    "length in the trailer": b"0\r\nContent-Length: 5\r\n\r\n",
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
