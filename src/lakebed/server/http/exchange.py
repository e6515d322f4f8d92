"""`Exchange`: one request, its body as it arrives, and its reply as it leaves.

The first piece of a reply's body leaves together with the head, in one write. The body of
a request waits here until the application asks for it; `100 Continue` is sent only then,
so that whoever is refused need not send anything.
"""

import asyncio
from collections.abc import Mapping
from typing import Final, Protocol

from lakebed.limits import HTTP_BODY_WAITING_BYTES, HTTP_DRAIN_BYTES_MAX, HTTP_JOIN_BYTES_MAX
from lakebed.server.http.app import App, ClientGoneError, Message, Scope
from lakebed.server.http.reply_head import add_fields, status_line
from lakebed.telemetry.failures import failure_fields
from lakebed.telemetry.log import get_logger

_CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
_CLOSE: Final = b"connection: close\r\n"
_KEEP: Final = b"connection: keep-alive\r\n"
_CHUNKED: Final = b"transfer-encoding: chunked\r\n"
_LAST_CHUNK: Final = b"0\r\n\r\n"
_BODILESS: Final = frozenset({204, 304})
_NOTHING: Final[list[bytes]] = [b""]
_DISCONNECT: Final[Message] = {"type": "http.disconnect"}
_FAILED: Final = b'{"message": "internal error"}'

log = get_logger(__name__)


class Line(Protocol):
    """The connection, as its exchanges see it."""

    gone: bool
    """Whether nothing can be written any more."""
    stopping: bool
    """Whether the current reply is the last."""
    held_bytes: int
    """What the worker counts for its requests."""
    unwritable: bool
    """Whether the client is slower than we are."""
    transport: asyncio.Transport

    @property
    def date(self) -> bytes:
        """The header line."""
        ...

    async def drained(self) -> None: ...
    async def more_body(self) -> None: ...
    async def hang_up(self) -> None: ...
    def read_on(self) -> None: ...
    def taken(self) -> None: ...
    def finished(self, exchange: "Exchange") -> None: ...
    def request_id(self, scope: Scope) -> str: ...


class Exchange:
    """A request and its reply."""

    # Defaults stay in the class: most requests have no body that anyone waits for.
    complete = False
    """Whether the whole body is here."""
    cut_off = False
    """Whether the rest of the body will never come."""
    begun = False
    answered = False
    waiting_bytes = 0
    head_bytes = 0
    """What the head takes, if it is large."""
    asked = False
    """Whether the application wants the body."""
    task: asyncio.Task[None] | None = None
    _chunks: list[bytes] | None = None
    _continued = False
    _taken = False
    _start: Message | None = None
    _bodiless = False
    _chunked = False
    _left: int | None = None

    def __init__(
        self,
        line: Line,
        scope: Scope,
        keep_alive: bool,  # noqa: FBT001  made once a request: keywords would cost more than they say
        http_1_1: bool,  # noqa: FBT001
        named: Mapping[bytes, bytes],
    ) -> None:
        """Hold a request whose body is still to come; `named` are its headers."""
        self._line = line
        self.scope = scope
        self.keep_alive = keep_alive
        self._http_1_1 = http_1_1
        self._named = named

    async def run(self, app: App) -> None:
        """Let `app` answer; whatever happens, the connection learns that it is over."""
        try:
            await app(self.scope, self.receive, self.send)
        except ClientGoneError:
            pass
        except Exception as error:  # noqa: BLE001  the outermost loop: no request may end the worker
            self._fail(error)
        else:
            if not (self.answered or self._line.gone):
                self._fail(None)
        self._line.finished(self)

    def drop(self) -> None:
        """Let go of what waits: the application hears that the rest never comes."""
        self._chunks = None
        self.waiting_bytes = self.head_bytes = 0
        self.complete = False
        self.cut_off = True

    def feed(self, data: bytes) -> bool:
        """Take a piece of the body; return whether enough of it waits."""
        if self._chunks is None:
            self._chunks = [data]
        else:
            self._chunks.append(data)
        self.waiting_bytes += len(data)
        return self.waiting_bytes > HTTP_BODY_WAITING_BYTES

    async def receive(self) -> Message:
        """Return what has arrived of the body, or that the client is gone."""
        self.asked = True
        if self._taken:
            await self._line.hang_up()
            return _DISCONNECT
        while not (self._chunks or self.complete or self.cut_off):
            if not (self._continued or self.begun) and self._waits():
                self._line.transport.write(_CONTINUE)
            self._continued = True
            await self._line.more_body()
        if self.cut_off and not self.complete:
            return _DISCONNECT
        chunks = self._chunks or _NOTHING
        body = chunks[0] if len(chunks) == 1 else b"".join(chunks)
        self._chunks = None
        self.waiting_bytes = 0
        if self._line.held_bytes:
            self._line.taken()
        if self.complete:
            self._taken = True
        else:
            self._line.read_on()
        return {"type": "http.request", "body": body, "more_body": not self.complete}

    async def send(self, message: Message) -> None:
        """Take the start of the reply, or a piece of its body; wait while the client is slower."""
        if message["type"] == "http.response.start":
            assert self._start is None, "a reply starts once"
            self._start = message
            return
        body = message.get("body", b"")
        more = message.get("more_body", False)
        line = self._line
        # A write that failed closes the transport at once, and the connection hears of it only when the loop runs.
        if line.gone or (more and line.transport.is_closing()):
            if more:
                raise ClientGoneError
            self.answered = True
            return
        if self.begun:
            self._go_on(body, more=more)
        else:
            self._begin(body, more=more)
        self.answered = not more
        if line.unwritable:
            await line.drained()

    def _waits(self) -> bool:
        """Return whether the client waits to be told to send its body."""
        return self._http_1_1 and self._named.get(b"expect", b"").lower() == b"100-continue"

    def _begin(self, body: bytes, *, more: bool) -> None:
        """Write the head, and the first piece of the body with it."""
        start = self._start
        assert start is not None, "the start comes before the body"
        status: int = start["status"]
        parts = [status_line(status), self._line.date]
        length, close = add_fields(parts, start["headers"])
        if self.scope["method"] == "HEAD" or status in _BODILESS:
            self._bodiless = True
            body = b""
        elif length is not None:
            self._left = length
        elif not more:
            self._left = len(body)
            parts.append(b"content-length: %d\r\n" % len(body))
        elif self._http_1_1:
            self._chunked = True
            parts.append(_CHUNKED)
        else:
            self.keep_alive = False
        if close:
            self.keep_alive = False
        elif not self.complete or self._line.stopping:
            self.keep_alive = self.keep_alive and self._outlives()
        if not self.keep_alive:
            if not close:
                parts.append(_CLOSE)
        elif not self._http_1_1:
            parts.append(_KEEP)
        parts.append(b"\r\n")
        if len(body) > HTTP_JOIN_BYTES_MAX or self._chunked:
            self.begun = True
            self._line.transport.write(b"".join(parts))
            self._go_on(body, more=more)
            return
        if self._left is not None:
            self._count(body, more=more)
        self.begun = True
        parts.append(body)
        self._line.transport.write(b"".join(parts))

    def _outlives(self) -> bool:
        """Return whether the connection can go on although the rest of the body is still to come."""
        if self._line.stopping or self.cut_off:
            return False
        # A client that waits for `100 Continue` may send its body or not, and nobody knows which.
        if not self._continued and self._waits():
            return False
        return int(self._named.get(b"content-length", b"0")) <= HTTP_DRAIN_BYTES_MAX

    def _go_on(self, body: bytes, *, more: bool) -> None:
        if self._bodiless:
            return
        transport = self._line.transport
        if not self._chunked:
            if self._left is not None:
                self._count(body, more=more)
            if body:
                transport.write(body)
            return
        if body:
            end = b"\r\n" if more else b"\r\n" + _LAST_CHUNK
            transport.writelines([b"%x\r\n" % len(body), body, end])
        elif not more:
            transport.write(_LAST_CHUNK)

    def _count(self, body: bytes, *, more: bool) -> None:
        """Hold the application to the length it announced: the client takes what follows for the next reply."""
        assert self._left is not None, "a length was announced"
        self._left -= len(body)
        if self._left < 0 or (self._left and not more):
            raise ValueError(f"the reply's length is off by {-self._left} bytes")

    def _fail(self, error: BaseException | None) -> None:
        """Say that the application failed if nothing was said yet; else break off."""
        request_id = self._line.request_id(self.scope)
        log.error(
            "request_failed",
            request_id=request_id,
            method=self.scope["method"],
            path=self.scope["raw_path"].decode("latin-1"),
            **(failure_fields(error) if error else {"error": "ended without a reply"}),
        )
        self.keep_alive = False
        if self._line.gone or self.begun:
            self.cut_off = True
            return
        headers: list[tuple[bytes, bytes]] = [
            (b"content-type", b"application/json"),
            (b"content-length", b"%d" % len(_FAILED)),
            (b"x-request-id", request_id.encode()),
        ]
        self._start = {"type": "http.response.start", "status": 500, "headers": headers}
        self._begin(_FAILED, more=False)
        self.answered = True
