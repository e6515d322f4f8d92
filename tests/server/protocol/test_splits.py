"""However the bytes of a connection are cut, the answers are the same."""

import asyncio
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from lakebed.env.clock import SystemClock
from lakebed.server.http.balance import Balance
from lakebed.server.http.connections import Connections
from lakebed.server.http.protocol import Connection
from lakebed.telemetry.request_ids import RequestIds
from tests.server.protocol.site import Answer, Application, answers
from tests.server.protocol.test_requests import chunked, get, post


class Wire:
    """A transport that keeps what is written."""

    def __init__(self) -> None:
        self.written: list[bytes] = []
        self.paused = False
        self.closed = False

    def write(self, data: bytes) -> None:
        assert not self.closed, "written after the end"
        self.written.append(data)

    def writelines(self, pieces: list[bytes]) -> None:
        for piece in pieces:
            self.write(piece)

    def pause_reading(self) -> None:
        assert not self.paused
        self.paused = True

    def resume_reading(self) -> None:
        assert self.paused
        self.paused = False

    def get_extra_info(self, name: str) -> None:
        return None

    def can_write_eof(self) -> bool:
        return False

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True


async def replies(pieces: list[bytes]) -> list[Answer]:
    """Feed the pieces as the loop would: nothing while reading is paused."""
    connections = Connections(SystemClock(), RequestIds("test"), Balance([0]), limit=10)
    wire: Any = Wire()
    connection = Connection(Application(), connections)
    connection.connection_made(wire)
    for piece in pieces:
        for _ in range(1000):
            if not wire.paused:
                break
            await asyncio.sleep(0)
        assert not wire.paused, "reading never goes on"
        if not wire.closed:
            connection.data_received(piece)
        await asyncio.sleep(0)
    connection.eof_received()
    for _ in range(1000):
        await asyncio.sleep(0)
        if wire.closed:
            break
    connection.connection_lost(None)
    await connections.end(1)
    return [
        Answer(answer.status, {**answer.headers, "date": ""}, answer.body)
        for answer in answers(b"".join(wire.written))
    ]


REQUESTS = st.sampled_from(
    [
        get(b"echo/a?b"),
        get(b"health", b"X-Long: " + b"v" * 300),
        post(b"echo", b"hello\r\n\r\n"),
        post(b"early", b"GET /health HTTP/1.1\r\n\r\n"),
        chunked(b"echo", b"one", b"\r\n0\r\n\r\n", b"three"),
        chunked(b"early", b"unread", end=b"0\r\nTrailer: x\r\n\r\n"),
        get(b"empty?status=204"),
        get(b"stream"),
    ]
)
ENDS = st.sampled_from(
    [
        b"",
        get(b"health", b"Connection: close"),
        get(b"health", b"Connection: upgrade", b"Upgrade: x"),
        post(b"echo", b"GET / HTTP/1.1\r\n\r\n", b"Connection: upgrade", b"Upgrade: x"),
        b"BREW / HTTP/1.1\r\n\r\n",
        post(b"echo", b"", b"Content-Length: 0"),
        b"POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabcd",
    ]
)


@settings(max_examples=150, deadline=None)
@given(st.lists(REQUESTS, max_size=5), ENDS, st.data())
def test_any_cut_of_a_stream_of_requests_gives_the_same_answers(
    requests: list[bytes], end: bytes, data: st.DataObject
) -> None:
    stream = b"".join(requests) + end
    cuts = sorted(data.draw(st.sets(st.integers(0, len(stream)), max_size=12)))
    pieces = [stream[a:b] for a, b in zip([0, *cuts], [*cuts, len(stream)], strict=True) if a < b]

    cut, whole = asyncio.run(replies(pieces)), asyncio.run(replies([stream] if stream else []))

    assert cut == whole
    assert len(whole) == len(requests) + bool(end)


def test_a_stream_cut_at_every_byte_gives_the_same_answers() -> None:
    stream = chunked(b"echo", b"one", b"two") + post(b"echo", b"x" * 20) + get(b"health")
    cut = asyncio.run(replies([stream[n : n + 1] for n in range(len(stream))]))
    assert cut == asyncio.run(replies([stream]))
    assert [answer.status for answer in cut] == [200, 200, 200]
