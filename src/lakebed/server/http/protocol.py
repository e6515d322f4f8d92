"""`Connection`: bytes of one client to requests, in order, and replies to bytes.

llhttp finds where requests begin and end, and refuses what could be read in two ways; the
checks that it leaves to us are in `on_headers_complete`. One request is answered at a time:
those that a client sends ahead wait, and while any do, nothing more is read.

Every wait for the client has an end (`deadline`), except while the application works.
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
    HTTP_STALL_SECONDS,
    HTTP_TARGET_BYTES_MAX,
)
from lakebed.server.http.app import App, Scope
from lakebed.server.http.connections import Connections
from lakebed.server.http.exchange import Exchange
from lakebed.server.http.refusal import (
    HEAD_TOO_LARGE,
    TARGET_TOO_LONG,
    TOO_MANY,
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
_NEVER: Final = float("inf")
# The bytes that each field adds to its name and its value.
_FIELD_BYTES: Final = 4


class Connection(asyncio.Protocol):
    """One client. Its callbacks `on_…` are the parser's."""

    __slots__ = (
        "_app",
        "_begin_bytes",
        "_body_wait",
        "_connections",
        "_current",
        "_drain_wait",
        "_drained_bytes",
        "_ended",
        "_feed_bytes",
        "_head_bytes",
        "_headers",
        "_in_head",
        "_incomplete",
        "_lingering",
        "_once",
        "_parser",
        "_queue",
        "_reading",
        "_refusal",
        "_silent_bytes",
        "_target",
        "_transport",
        "deadline",
        "gone",
        "stopping",
        "unwritable",
    )

    _transport: asyncio.Transport

    def __init__(self, app: App, connections: Connections) -> None:
        self._app = app
        self._connections = connections
        self._parser = httptools.HttpRequestParser(self)
        self.deadline = connections.now + HTTP_HEAD_SECONDS
        self.gone = False
        self.stopping = False
        self.unwritable = False
        self._reading = True
        self._ended = False
        """Whether what still comes is no request any more."""
        self._lingering = False
        """Whether our last words are said, and the client gets some time to hear them."""
        self._current: Exchange | None = None
        """What the application works on."""
        self._incomplete: Exchange | None = None
        """Whose body is arriving."""
        self._queue: deque[Exchange] = deque()
        self._refusal: Refusal | None = None
        """What is said when everything before it is answered."""
        self._body_wait: asyncio.Future[None] | None = None
        self._drain_wait: asyncio.Future[None] | None = None
        self._in_head = False
        self._feed_bytes = 0
        self._begin_bytes = 0
        """What was fed when the head began: it may hold the end of another request."""
        self._head_bytes = 0
        """What was fed of the head since."""
        self._silent_bytes = 0
        self._drained_bytes = 0
        self._target = b""
        self._headers: list[tuple[bytes, bytes]] = []
        self._once: dict[bytes, bytes] = {}

    # What the loop calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are no subclass of asyncio's.
        self._transport = cast("asyncio.Transport", transport)
        if not self._connections.join(self):
            self._refuse(TOO_MANY)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002  nobody is there to be told
        self._connections.leave(self)
        self._break_off()

    def data_received(self, data: bytes) -> None:
        if self._ended:
            return
        self._feed_bytes = len(data)
        self._head_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            # We stay with HTTP/1.1, which is an answer; but where a body would end, this parser does not say.
            self._ended = True
        except httptools.HttpParserError as error:
            self._refuse(refusal_of(error))
        else:
            if self._in_head or self._incomplete is not None:
                self._check_progress(len(data))

    def eof_received(self) -> bool:
        """Answer what has been asked by a client that only stops sending."""
        self._ended = True
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

    def on_message_begin(self) -> None:
        self._in_head = True
        self._begin_bytes = self._feed_bytes
        self._head_bytes = 0
        self._target = b""
        self._headers = []
        self._once = {}
        if self._current is None:
            self.deadline = self._connections.now + HTTP_HEAD_SECONDS

    def on_url(self, piece: bytes) -> None:
        self._target += piece
        if len(self._target) > HTTP_TARGET_BYTES_MAX:
            raise RefusedError(TARGET_TOO_LONG)

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._in_head:
            return  # A trailer: nothing of ours asks for one.
        name = name.lower()
        if name in _ONCE:
            if name in self._once:
                raise bad(f"{name.decode()} is given twice")
            self._once[name] = value
        self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        self._in_head = False
        once = self._once
        parser = self._parser
        method = parser.get_method()
        version = parser.get_http_version()
        self._check_head(method, version)
        path, _, query = self._target.partition(b"?")
        scope: Scope = {
            "type": "http",
            "method": method.decode(),
            "raw_path": path,
            "query_string": query,
            "headers": self._headers,
        }
        length = once.get(b"content-length")
        exchange = Exchange(
            self,
            scope,
            keep_alive=parser.should_keep_alive(),
            http_1_1=version == "1.1",
            expects=b"expect" in once and version == "1.1",
            length=int(length) if length is not None else None,
        )
        if parser.should_upgrade():
            self._check_upgrade()
            exchange.keep_alive = False
        self._incomplete = exchange
        self._silent_bytes = 0
        if self._current is None:
            self._begin(exchange)
        else:
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
        elif exchange.feed(data):
            self._pause()
        self._wake_reader()

    def on_message_complete(self) -> None:
        exchange = self._incomplete
        assert exchange is not None, "what ends has begun"
        exchange.complete = True
        self._incomplete = None
        if not exchange.keep_alive:
            self._ended = True
        if exchange is self._current:
            self._wake_reader()
        elif self._current is None:
            self._next()

    # What exchanges call.

    @property
    def date(self) -> bytes:
        return self._connections.date

    def write(self, *pieces: bytes) -> None:
        if self.gone:
            return
        if len(pieces) == 1:
            self._transport.write(pieces[0])
        else:
            self._transport.writelines(pieces)

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
        if self._incomplete is not None:
            self.deadline = self._connections.now + HTTP_STALL_SECONDS
        self._body_wait = self._connections.loop.create_future()
        await self._body_wait
        self._body_wait = None
        self._work_on()

    def _work_on(self) -> None:
        if not (self.gone or self._lingering):
            self.deadline = _NEVER

    def read_on(self) -> None:
        if not (self._reading or self._queue or self.gone):
            self._reading = True
            self._transport.resume_reading()

    def request_id(self, scope: Scope) -> str:
        return self._connections.request_ids.of(dict(scope["headers"]))

    def finished(self, exchange: Exchange) -> None:
        """Go on with what comes next: the rest of this body, another request, or the end."""
        self._current = None
        if self.gone:
            return
        if exchange.cut_off and exchange.begun and not exchange.answered:
            self._transport.abort()  # A reply that ends early must not look whole.
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
            self._transport.close()

    def expire(self) -> None:
        """End what the client has kept waiting for too long."""
        self.deadline = _NEVER
        if self._in_head and self._current is None and not self._ended:
            self._refuse(TOO_SLOW)
        else:
            self._transport.abort()

    def abort(self) -> None:
        """Hang up at once."""
        self._transport.abort()

    # Steps.

    def _check_head(self, method: bytes, version: str) -> None:
        once = self._once
        if version == "1.1":
            if b"host" not in once:
                raise bad("host is missing")
        elif version != "1.0":
            raise bad(f"HTTP/{version} is not spoken here: use HTTP/1.1")
        elif b"transfer-encoding" in once:
            raise bad("HTTP/1.0 has no transfer-encoding")
        if once.get(b"transfer-encoding", b"chunked").lower() != b"chunked":
            raise bad("transfer-encoding can only be chunked")
        if not self._target.startswith(b"/") or method == b"CONNECT":
            raise bad("the target of a request begins with a slash")
        if b"#" in self._target:
            raise bad("the target of a request has no fragment")
        if len(self._headers) > HTTP_FIELDS_MAX:
            raise RefusedError(HEAD_TOO_LARGE)
        if self._begin_bytes + self._head_bytes > HTTP_HEAD_BYTES_MAX:
            self._check_size()

    def _check_size(self) -> None:
        """Add up the head: what was fed since it began may hold other things."""
        size = sum([len(name) + len(value) + _FIELD_BYTES for name, value in self._headers])
        if size + len(self._target) > HTTP_HEAD_BYTES_MAX:
            raise RefusedError(HEAD_TOO_LARGE)

    def _check_upgrade(self) -> None:
        """The parser leaves a connection that asks for another protocol at the end of the head."""
        if self._once.get(b"content-length", b"0") != b"0" or b"transfer-encoding" in self._once:
            raise bad("a request with a body cannot ask for another protocol")

    def _check_progress(self, fed: int) -> None:
        """Bound what the parser keeps to itself: a field that does not end, a trailer."""
        if self._in_head:
            if self._head_bytes > HTTP_HEAD_BYTES_MAX:
                self._refuse(HEAD_TOO_LARGE)
            return
        self._silent_bytes += fed
        if self._silent_bytes > HTTP_HEAD_BYTES_MAX + fed:
            self._refuse(TRAILER_TOO_LARGE)

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
            seconds = HTTP_HEAD_SECONDS if self._in_head else HTTP_IDLE_SECONDS
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
                self._transport.abort()
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
        self.write(refusal.reply(self.date))
        self._close(linger=True)

    def _close(self, *, linger: bool = False) -> None:
        """End the connection; if the client may still be sending, first let it read our last words."""
        self._ended = True
        if self._lingering:
            return
        if not linger and self._incomplete is None:
            self._transport.close()
            return
        self._lingering = True
        if self._transport.can_write_eof():
            self._transport.write_eof()
        self.deadline = self._connections.now + HTTP_LINGER_SECONDS
        if not self._reading:
            self._reading = True
            self._transport.resume_reading()

    def _break_off(self) -> None:
        self.gone = True
        self._queue.clear()
        if self._incomplete is not None:
            self._incomplete.cut_off = True
        self._wake_reader()
        if self._drain_wait is not None and not self._drain_wait.done():
            self._drain_wait.set_result(None)

    def _wake_reader(self) -> None:
        if self._body_wait is not None and not self._body_wait.done():
            self._body_wait.set_result(None)

    def _pause(self) -> None:
        if self._reading and not self.gone:
            self._reading = False
            self._transport.pause_reading()
