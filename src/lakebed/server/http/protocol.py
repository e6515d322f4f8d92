"""`Connection`: bytes of one client to requests, in order, and replies to bytes.

llhttp finds where requests begin and end, and refuses what could be read in two ways; the
checks that it leaves to us are in `on_headers_complete`. One request is answered at a time:
those that a client sends ahead wait, and while any do, nothing more is read.

Every wait for the client has an end (`deadline`), except while the application works.

Until the application asks for a body, no more of it is read than comes in one piece. What is held of a request that
waits (`_account`) counts for the worker, which refuses requests rather than hold too much.
"""

import asyncio
from collections import deque
from typing import Final, cast

import httptools

from lakebed.limits import (
    HTTP_DRAIN_BYTES_MAX,
    HTTP_FIELDS_MAX,
    HTTP_HEAD_BYTES_MAX,
    HTTP_HEAD_SECONDS,
    HTTP_IDLE_SECONDS,
    HTTP_LINGER_SECONDS,
    HTTP_PIPELINE_MAX,
    HTTP_STALL_SECONDS,
    HTTP_TARGET_BYTES_MAX,
    HTTP_UNCOUNTED_BYTES,
)
from lakebed.server.http.app import App, Scope
from lakebed.server.http.connections import Connections
from lakebed.server.http.exchange import Exchange
from lakebed.server.http.refusal import (
    HEAD_TOO_LARGE,
    HELD_TOO_MUCH,
    TARGET_TOO_LONG,
    TOO_MANY,
    TOO_MANY_AHEAD,
    TOO_MUCH,
    TOO_SLOW,
    TRAILER_TOO_LARGE,
    Refusal,
    RefusedError,
    bad,
    refusal_of,
)

# Given twice, each of these could be read in two ways.
_ONCE: Final = frozenset({b"host", b"content-length", b"transfer-encoding", b"expect"})
_FRAMING: Final = (b"content-length", b"transfer-encoding")
_NEVER: Final = float("inf")
# The bytes that each field adds to its name and its value.
_FIELD_BYTES: Final = 4
# What a request that waits for its turn takes beside its bytes.
_QUEUED_BYTES: Final = 2048


class Connection(asyncio.Protocol):
    """One client. Its callbacks `on_…` are the parser's."""

    # Defaults stay in the class: what a connection never needs costs it nothing.
    gone = False
    stopping = False
    unwritable = False
    transport: asyncio.Transport
    _reading = True
    _ended = False
    """Whether what still comes is no request any more."""
    _heard_out = False
    """Whether the client has said that it sends nothing more."""
    _lingering = False
    """Whether our last words are said, and the client gets some time to hear them."""
    _current: Exchange | None = None
    """What the application works on."""
    _incomplete: Exchange | None = None
    """Whose body is arriving."""
    _refusal: Refusal | None = None
    """What is said when everything before it is answered."""
    _body_wait: asyncio.Future[None] | None = None
    _drain_wait: asyncio.Future[None] | None = None
    _target = b""
    """The target of the head that is arriving; without one, none is."""
    _feed_bytes = 0
    _head_bytes = 0
    """What was fed before of the head that is arriving."""
    _begin_bytes = 0
    """What was fed when it began: this may hold the end of another request."""
    _upgrading: Exchange | None = None
    """Who asked for another protocol."""
    _framing: tuple[bytes, bytes] | None = None
    """What says how long its body is."""
    _silent_bytes = 0
    _drained_bytes = 0
    held_bytes = 0
    """What the worker counts for this connection."""
    _peer: tuple[str, int] | None = None

    def __init__(self, app: App, connections: Connections) -> None:
        self._app = app
        self._connections = connections
        self._parser = httptools.HttpRequestParser(self)
        self._queue: deque[Exchange] = deque()
        self._headers: list[tuple[bytes, bytes]] = []
        self.deadline = connections.now + HTTP_HEAD_SECONDS

    # What the loop calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are no subclass of asyncio's.
        self.transport = cast("asyncio.Transport", transport)
        peer = transport.get_extra_info("peername")
        self._peer = (peer[0], peer[1]) if peer else None
        if not self._connections.join(self):
            self._refuse(TOO_MANY)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002  nobody is there to be told
        self._ended = True
        self._connections.leave(self)
        self._break_off()
        self._hold(0)
        # The parser holds on to us: without this, every connection would be garbage for the collector of cycles.
        del self._parser

    def data_received(self, data: bytes) -> None:
        if self._ended:
            return
        self._feed_bytes = len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self._stay(data[upgrade.args[0] :])
        except httptools.HttpParserError as error:
            self._refuse(refusal_of(error))
        else:
            if self._target:
                self._wait_for_head()
            elif self._incomplete is not None:
                self._wait_for_body()
            elif self.held_bytes or self._queue or self._feed_bytes > HTTP_UNCOUNTED_BYTES:
                self._account()

    def eof_received(self) -> bool:
        """Answer what has been asked by a client that only stops sending."""
        self._ended = self._heard_out = True
        if self._incomplete is not None:
            self._incomplete.cut_off = True
            self._wake_reader()
        return self._current is not None and not self.gone

    def pause_writing(self) -> None:
        self.unwritable = True

    def resume_writing(self) -> None:
        self.unwritable = False
        if self._drain_wait is not None and not self._drain_wait.done():
            self._drain_wait.set_result(None)

    # What the parser calls.

    def on_url(self, piece: bytes) -> None:
        self._target += piece
        if len(self._target) > HTTP_TARGET_BYTES_MAX:
            raise RefusedError(TARGET_TOO_LONG)

    def on_header(self, name: bytes, value: bytes) -> None:
        # The parser leaves the spaces behind a value, which are no part of it.
        self._headers.append((name.lower(), value.rstrip(b" \t")))

    def on_headers_complete(self) -> None:
        parser = self._parser
        headers, target = self._headers, self._target
        named = dict(headers)
        method = parser.get_method()
        version = parser.get_http_version()
        self._check_head(version, named)
        path, _, query = target.partition(b"?")
        scope: Scope = {
            "type": "http",
            "method": method.decode(),
            "raw_path": path,
            "query_string": query,
            "headers": headers,
            "named": named,
            "client": self._peer,
        }
        exchange = Exchange(self, scope, parser.should_keep_alive(), version == "1.1", named)
        if self._head_bytes + self._feed_bytes > HTTP_UNCOUNTED_BYTES:
            exchange.head_bytes = _head_size(headers, target)
        if parser.should_upgrade():
            if method == b"CONNECT":
                raise bad("this is no proxy")
            exchange.keep_alive = False
            self._framing = next(((name, named[name]) for name in _FRAMING if name in named), None)
            self._upgrading = exchange
        self._incomplete = exchange
        self._target = b""
        self._headers = []  # Trailers, if any come, end up here and nowhere else.
        self._head_bytes = self._silent_bytes = 0
        if self._current is None:
            self._begin(exchange)
        else:
            if len(self._queue) >= HTTP_PIPELINE_MAX:
                self._incomplete = None
                raise RefusedError(TOO_MANY_AHEAD)
            self._queue.append(exchange)
            self._pause()

    def on_body(self, data: bytes) -> None:
        exchange = self._incomplete
        assert exchange is not None, "a body belongs to a request"
        self._silent_bytes = 0
        if exchange.answered:
            self._drained_bytes += len(data)
            if self._drained_bytes > HTTP_DRAIN_BYTES_MAX:
                self._close()
                raise RefusedError(TOO_MUCH)
        elif exchange.feed(data) or self._connections.held_bytes > self._connections.pressing_bytes:
            self._pause()
        self._wake_reader()

    def on_message_complete(self) -> None:
        exchange = self._incomplete
        assert exchange is not None, "what ends has begun"
        exchange.complete = True
        self._incomplete = None
        if self._headers:
            self._headers = []
        if not exchange.keep_alive:
            self._ended = True
        if self._body_wait is not None:
            self._wake_reader()
        elif self._current is None:
            self._next()

    # What exchanges call.

    @property
    def date(self) -> bytes:
        return self._connections.date

    async def drained(self) -> None:
        """Return when the client has read most of what was written, or is gone."""
        if self.gone:
            return
        self.deadline = self._connections.now + HTTP_STALL_SECONDS
        self._drain_wait = self._connections.loop.create_future()
        await self._drain_wait
        self._drain_wait = None
        self._work_on()

    async def more_body(self) -> None:
        """Return when there is more of the body, or will never be."""
        self.read_on()
        self.deadline = self._connections.now + HTTP_STALL_SECONDS
        self._body_wait = self._connections.loop.create_future()
        await self._body_wait
        self._body_wait = None
        self._work_on()

    async def hang_up(self) -> None:
        """Return when the client is gone."""
        while not self.gone:
            self._body_wait = self._connections.loop.create_future()
            await self._body_wait
        self._body_wait = None

    def read_on(self) -> None:
        if not (self._reading or self._queue or self.gone):
            self._reading = True
            self.transport.resume_reading()

    def taken(self) -> None:
        """Count anew, because the application has taken what waited."""
        self._account()

    def request_id(self, scope: Scope) -> str:
        return self._connections.request_ids.of(dict(scope["headers"]))

    def finished(self, exchange: Exchange) -> None:
        """Go on with what comes next: the rest of this body, another request, or the end."""
        self._current = None
        if self.held_bytes:
            self._account()
        if self.gone or self._lingering:
            return
        if exchange.cut_off and exchange.begun and not exchange.answered:
            self.abort()  # A reply that ends early must not look whole.
        elif not exchange.keep_alive or exchange.waiting_bytes > HTTP_DRAIN_BYTES_MAX:
            self._close()
        elif exchange.complete:
            self._next()
        else:
            self._drained_bytes = exchange.waiting_bytes
            self.deadline = self._connections.now + HTTP_HEAD_SECONDS
            self.read_on()

    # What the server calls.

    def stop(self) -> None:
        """Let the current request be the last one."""
        self.stopping = True
        self._queue.clear()
        if self._current is None:
            self.transport.close()

    def expire(self) -> None:
        """End what the client has kept waiting for too long."""
        self.deadline = _NEVER
        if self._target and self._current is None and not self._ended:
            self._refuse(TOO_SLOW)
        else:
            self.abort()

    def abort(self) -> None:
        """Hang up at once."""
        self.gone = True
        self.transport.abort()

    # Steps.

    def _check_head(self, version: str, named: dict[bytes, bytes]) -> None:
        """Refuse what the parser lets through and we do not."""
        headers, target = self._headers, self._target
        if version == "1.1":
            if b"host" not in named:
                raise bad("host is missing")
        elif version != "1.0":
            raise bad(f"HTTP/{version} is not spoken here: use HTTP/1.1")
        elif b"transfer-encoding" in named:
            raise bad("HTTP/1.0 has no transfer-encoding")
        if b"transfer-encoding" in named and named[b"transfer-encoding"].lower() != b"chunked":
            raise bad("transfer-encoding can only be chunked")
        if len(named) != len(headers):
            _check_repeated(headers)
        if len(headers) > HTTP_FIELDS_MAX:
            raise RefusedError(HEAD_TOO_LARGE)
        if not target.startswith(b"/"):
            raise bad("the target of a request begins with a slash")
        if b"#" in target:
            raise bad("the target of a request has no fragment")
        if self._head_bytes + self._feed_bytes > HTTP_HEAD_BYTES_MAX:
            _check_size(headers, target)

    def _stay(self, rest: bytes) -> None:
        """Answer a request for another protocol in this one, as its last.

        The parser ends such a request with its head. Where its body ends, if it has one, another
        parser finds out, which is told how long it is and shows us nothing else.
        """
        exchange, framing = self._upgrading, self._framing
        self._upgrading = None
        assert exchange is not None, "somebody asked"
        if framing is None:
            self._ended = True
            return
        exchange.complete = self._ended = False
        self._incomplete = exchange
        self._parser = httptools.HttpRequestParser(_BodyOf(self))
        self._parser.feed_data(b"POST / HTTP/1.1\r\nConnection: close\r\n%b: %b\r\n\r\n" % framing)
        if rest:
            self.data_received(rest)

    def _wait_for_head(self) -> None:
        """Bound the time that a head takes, and what the parser keeps of a field that does not end."""
        if not self._head_bytes:
            self._begin_bytes = self._feed_bytes
            if self._current is None:
                self.deadline = self._connections.now + HTTP_HEAD_SECONDS
        self._head_bytes += self._feed_bytes
        if self._head_bytes - self._begin_bytes > HTTP_HEAD_BYTES_MAX:
            self._refuse(HEAD_TOO_LARGE)
        self._account()

    def _wait_for_body(self) -> None:
        """Bound what the parser keeps of a trailer; `on_body` begins to count anew."""
        self._silent_bytes += self._feed_bytes
        if self._silent_bytes > HTTP_HEAD_BYTES_MAX + self._feed_bytes:
            self._refuse(TRAILER_TOO_LARGE)
            return
        exchange = self._incomplete
        assert exchange is not None, "a body belongs to a request"
        if exchange.waiting_bytes > HTTP_UNCOUNTED_BYTES and not (exchange.asked or exchange.answered):
            self._pause()
        if self.held_bytes or self._feed_bytes > HTTP_UNCOUNTED_BYTES:
            self._account()

    def _account(self) -> None:
        """Count what is held of requests that wait; refuse them if it is too much for the worker."""
        size = self._head_bytes
        if self._incomplete is not None:
            # What came last may be body, which is counted as such.
            size += max(0, self._silent_bytes - self._feed_bytes)
        current = self._current
        if current is not None:
            size += current.waiting_bytes + current.head_bytes
        for each in self._queue:
            size += each.waiting_bytes + each.head_bytes + _QUEUED_BYTES
        self._hold(size)
        let_in = current is not None and current.asked
        if size and not self._ended and self._connections.holds_too_much(let_in=let_in):
            for each in self._queue:
                each.drop()
            self._queue.clear()
            if current is not None:
                current.drop()
                self._incomplete = current
            self._target, self._headers = b"", []
            self._head_bytes = self._silent_bytes = 0
            self._hold(0)
            self._refuse(HELD_TOO_MUCH)

    def _hold(self, size: int) -> None:
        self._connections.held_bytes += size - self.held_bytes
        self.held_bytes = size

    def _work_on(self) -> None:
        if not (self.gone or self._lingering):
            self.deadline = _NEVER

    def _begin(self, exchange: Exchange) -> None:
        self._current = exchange
        self.deadline = _NEVER
        exchange.task = self._connections.loop.create_task(exchange.run(self._app))

    def _next(self) -> None:
        """Take the next request, or wait for one."""
        if self._queue:
            self._begin(self._queue.popleft())
        elif self._refusal is not None:
            self._say(self._refusal)
        elif self.stopping or self._ended:
            self._close()
        else:
            seconds = HTTP_HEAD_SECONDS if self._target else HTTP_IDLE_SECONDS
            self.deadline = self._connections.now + seconds
            if not self._reading:
                self.read_on()

    def _refuse(self, refusal: Refusal) -> None:
        """Take nothing more from this client, and say why when its turn comes."""
        self._ended = True
        if self._lingering:
            return
        broken, self._incomplete = self._incomplete, None
        if broken is not None and broken is self._current:
            # The application hears that the rest never comes; what it says to that is not sent.
            broken.cut_off = True
            if broken.begun:
                self.abort()
            else:
                self._say(refusal)
                self.gone = True
            self._wake_reader()
            return
        if broken is not None and self._queue and self._queue[-1] is broken:
            self._queue.pop()
        self._refusal = refusal
        if self._current is None:
            self._next()

    def _say(self, refusal: Refusal) -> None:
        self.transport.write(refusal.reply(self.date))
        self._close(linger=True)

    def _close(self, *, linger: bool = False) -> None:
        """End the connection; if the client may still be sending, first let it read our last words."""
        self._ended = True
        if self._lingering:
            return
        if self._heard_out or not (linger or self._incomplete):
            self.transport.close()
            return
        self._lingering = True
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self.deadline = self._connections.now + HTTP_LINGER_SECONDS
        if not self._reading:
            self._reading = True
            self.transport.resume_reading()

    def _break_off(self) -> None:
        self.gone = True
        self._queue.clear()
        if self._incomplete is not None:
            self._incomplete.cut_off = True
            self._incomplete = None
        self._wake_reader()
        if self._drain_wait is not None and not self._drain_wait.done():
            self._drain_wait.set_result(None)

    def _wake_reader(self) -> None:
        if self._body_wait is not None and not self._body_wait.done():
            self._body_wait.set_result(None)

    def _pause(self) -> None:
        if self._reading and not self.gone:
            self._reading = False
            self.transport.pause_reading()


class _BodyOf:
    """The callbacks of a connection that only wants the rest of a body."""

    def __init__(self, connection: Connection) -> None:
        self.on_body = connection.on_body
        self.on_message_complete = connection.on_message_complete


def _check_repeated(headers: list[tuple[bytes, bytes]]) -> None:
    names = [name for name, _ in headers]
    for name in _ONCE:
        if names.count(name) > 1:
            raise bad(f"{name.decode()} is given twice")


def _check_size(headers: list[tuple[bytes, bytes]], target: bytes) -> None:
    """Add the head up: what was fed since it began may hold other things."""
    if _head_size(headers, target) > HTTP_HEAD_BYTES_MAX:
        raise RefusedError(HEAD_TOO_LARGE)


def _head_size(headers: list[tuple[bytes, bytes]], target: bytes) -> int:
    return sum([len(name) + len(value) + _FIELD_BYTES for name, value in headers]) + len(target)
