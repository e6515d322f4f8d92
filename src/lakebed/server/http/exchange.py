"""`Exchange`: one request, its body as it arrives, and its reply as it leaves.

The first piece of a reply's body leaves together with the head, in one write. The body of
a request waits here until the application asks for it; `100 Continue` is sent only then,
so that whoever is refused need not send anything.
"""

import asyncio
from typing import Any, Final, Protocol

from lakebed.limits import HTTP_BODY_WAITING_BYTES, HTTP_DRAIN_BYTES_MAX, HTTP_JOIN_BYTES_MAX
from lakebed.server.http.app import App, ClientGoneError, Message, Scope
from lakebed.server.http.reply_head import Headers, fields, status_line
from lakebed.telemetry.log import get_logger

_CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
_CLOSE: Final = b"connection: close\r\n"
_KEEP: Final = b"connection: keep-alive\r\n"
_CHUNKED: Final = b"transfer-encoding: chunked\r\n"
_LAST_CHUNK: Final = b"0\r\n\r\n"
_BODILESS: Final = frozenset({204, 304})
_FAILED: Final = b'{"message": "internal error"}'

log = get_logger(__name__)


class Line(Protocol):
    """The connection, as its exchanges see it."""

    gone: bool
    """Whether nothing can be written any more."""
    stopping: bool
    """Whether the current reply is the last."""
    unwritable: bool
    """Whether the client is slower than we are."""

    @property
    def date(self) -> bytes:
        """The header line."""
        ...

    def write(self, *pieces: bytes) -> None: ...
    async def drained(self) -> None: ...
    async def more_body(self) -> None: ...
    def read_on(self) -> None: ...
    def finished(self, exchange: "Exchange") -> None: ...
    def request_id(self, scope: Scope) -> str: ...


class Exchange:
    """A request and its reply."""

    __slots__ = (
        "_bodiless",
        "_chunked",
        "_chunks",
        "_expects",
        "_http_1_1",
        "_left",
        "_length",
        "_line",
        "_start",
        "_taken",
        "answered",
        "begun",
        "complete",
        "cut_off",
        "keep_alive",
        "scope",
        "task",
        "waiting_bytes",
    )

    def __init__(
        self,
        line: Line,
        scope: Scope,
        *,
        keep_alive: bool,
        http_1_1: bool,
        expects: bool,
        length: int | None,
    ) -> None:
        """Hold a request whose body has `length` bytes, if that is known, and is still to come."""
        self._line = line
        self.scope = scope
        self.keep_alive = keep_alive
        self._http_1_1 = http_1_1
        self._expects = expects
        self._length = length
        self.complete = False
        """Whether the whole body is here."""
        self.cut_off = False
        """Whether the rest of the body will never come."""
        self.begun = False
        self.answered = False
        self.waiting_bytes = 0
        self.task: asyncio.Task[None] | None = None
        self._chunks: list[bytes] = []
        self._taken = False
        self._start: Message | None = None
        self._bodiless = False
        self._chunked = False
        self._left: int | None = None

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

    def feed(self, data: bytes) -> bool:
        """Take a piece of the body; return whether enough of it waits."""
        self._chunks.append(data)
        self.waiting_bytes += len(data)
        return self.waiting_bytes > HTTP_BODY_WAITING_BYTES

    async def receive(self) -> Message:
        """Return what has arrived of the body, or that the client is gone."""
        line = self._line
        while not (self._chunks or self.complete or self.cut_off) or (self._taken and not self._over()):
            if self._expects and not (self.begun or self.complete):
                line.write(_CONTINUE)
            self._expects = False
            await line.more_body()
        if self._taken or (self.cut_off and not self.complete):
            return {"type": "http.disconnect"}
        chunks = self._chunks
        body = chunks[0] if len(chunks) == 1 else b"".join(chunks)
        self._taken = self.complete
        if chunks:
            self._chunks = []
            self.waiting_bytes = 0
            if not self.complete:
                line.read_on()
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
        if line.gone:
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

    def _over(self) -> bool:
        return self.answered or self._line.gone

    def _begin(self, body: bytes, *, more: bool) -> None:
        """Write the head, and the first piece of the body with it."""
        start = self._start
        assert start is not None, "the start comes before the body"
        status: int = start["status"]
        headers: Headers = start["headers"]
        given = fields(headers)
        parts = [status_line(status), given.lines, self._line.date]
        length = given.length
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
        self._persist(parts, closed=given.close)
        parts.append(b"\r\n")
        if len(body) > HTTP_JOIN_BYTES_MAX or self._chunked:
            self.begun = True
            self._line.write(b"".join(parts))
            self._go_on(body, more=more)
            return
        if self._left is not None:
            self._count(body, more=more)
        self.begun = True
        parts.append(body)
        self._line.write(b"".join(parts))

    def _persist(self, parts: list[bytes], *, closed: bool) -> None:
        """Decide whether the connection outlives this reply, and say so."""
        if closed:
            self.keep_alive = False
            return
        if self._line.stopping or not (self.complete or self._is_worth_draining()):
            self.keep_alive = False
        if not self.keep_alive:
            parts.append(_CLOSE)
        elif not self._http_1_1:
            parts.append(_KEEP)

    def _is_worth_draining(self) -> bool:
        # A client that waits for `100 Continue` may send its body or not, and nobody knows which.
        if self._expects or self.cut_off:
            return False
        return self._length is None or self._length <= HTTP_DRAIN_BYTES_MAX

    def _go_on(self, body: bytes, *, more: bool) -> None:
        if self._bodiless:
            return
        line = self._line
        if not self._chunked:
            if self._left is not None:
                self._count(body, more=more)
            if body:
                line.write(body)
            return
        if body:
            line.write(b"%x\r\n" % len(body), body, b"\r\n" if more else b"\r\n" + _LAST_CHUNK)
        elif not more:
            line.write(_LAST_CHUNK)

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
            path=self.scope["raw_path"],
            exc_info=error or "the application ended without a reply",
        )
        self.keep_alive = False
        if self._line.gone or self.begun:
            self.cut_off = True
            return
        headers: list[tuple[bytes, Any]] = [
            (b"content-type", b"application/json"),
            (b"content-length", b"%d" % len(_FAILED)),
            (b"x-request-id", request_id.encode()),
        ]
        self._start = {"type": "http.response.start", "status": 500, "headers": headers}
        self._begin(_FAILED, more=False)
        self.answered = True
