"""A small application behind our HTTP server, in a thread with a loop of its own, and raw bytes to talk to it."""

import asyncio
import http.client
import io
import json
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs

import uvloop

from lakebed.env.clock import SystemClock
from lakebed.limits import HTTP_HELD_BYTES_MAX
from lakebed.server.http.acceptor import Acceptor
from lakebed.server.http.app import Receive, Scope, Send
from lakebed.server.http.balance import Balance
from lakebed.server.http.connections import Connections
from lakebed.server.http.listening import bound
from lakebed.telemetry.request_ids import RequestIds

LENGTH = b"content-length"


@dataclass
class Seen:
    """What the application saw, for the test to look at."""

    disconnects: int = 0
    gone: threading.Event = field(default_factory=threading.Event)
    sent_bytes: int = 0
    received_bytes: int = 0
    go: asyncio.Event = field(default_factory=asyncio.Event)
    begun: threading.Event = field(default_factory=threading.Event)


class Application:
    """Answers by path."""

    def __init__(self) -> None:
        self.seen = Seen()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        name = scope["raw_path"].decode().strip("/").split("/")[0] or "echo"
        await getattr(self, name)(scope, receive, send)

    async def echo(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = await self._whole(receive)
        if body is None:
            await reply(send, 499, b"cut off")
            return
        said = {
            "method": scope["method"],
            "path": scope["raw_path"].decode(),
            "query": scope["query_string"].decode(),
            "headers": [[name.decode(), value.decode("latin-1")] for name, value in scope["headers"]],
            "body": body.decode("latin-1"),
        }
        await reply(send, 200, json.dumps(said).encode())

    async def early(self, scope: Scope, receive: Receive, send: Send) -> None:
        await reply(send, 403, b"refused")

    async def health(self, scope: Scope, receive: Receive, send: Send) -> None:
        await reply(send, 200, b"fine")

    async def stream(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for piece in (b"one ", b"", b"two ", b"x" * 100_000):
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b" end"})

    async def sized(self, scope: Scope, receive: Receive, send: Send) -> None:
        count = int(parse_qs(scope["query_string"].decode())["n"][0])
        await send(
            {"type": "http.response.start", "status": 200, "headers": [(LENGTH, b"%d" % (count * 65536))]}
        )
        for _ in range(count):
            self.seen.sent_bytes += 65536
            await send({"type": "http.response.body", "body": b"x" * 65536, "more_body": True})
        await send({"type": "http.response.body", "body": b""})

    async def empty(self, scope: Scope, receive: Receive, send: Send) -> None:
        status = int(parse_qs(scope["query_string"].decode())["status"][0])
        await send({"type": "http.response.start", "status": status, "headers": []})
        await send({"type": "http.response.body", "body": b"not to be sent"})

    async def no_length(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"hello"})

    async def split(self, scope: Scope, receive: Receive, send: Send) -> None:
        evil = [(b"content-type", b"a\r\nx-evil: 1\r\n\r\nbody\0"), (LENGTH, b"2")]
        await send({"type": "http.response.start", "status": 200, "headers": evil})
        await send({"type": "http.response.body", "body": b"ok"})

    async def closing(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = [(LENGTH, b"2"), (b"connection", b"close")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b"ok"})

    async def fail(self, scope: Scope, receive: Receive, send: Send) -> None:
        raise RuntimeError(f"planned{1}")

    async def fail_late(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(LENGTH, b"100")]})
        await send({"type": "http.response.body", "body": b"begun", "more_body": True})
        raise RuntimeError(f"planned{1}")

    async def short(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(LENGTH, b"100")]})
        await send({"type": "http.response.body", "body": b"begun", "more_body": True})
        await send({"type": "http.response.body", "body": b""})

    async def long(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(LENGTH, b"3")]})
        await send({"type": "http.response.body", "body": b"longer"})

    async def silent(self, scope: Scope, receive: Receive, send: Send) -> None:
        pass

    async def slow(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Wait for the test before the body is read."""
        self.seen.begun.set()
        await self.seen.go.wait()
        await self.echo(scope, receive, send)

    async def sip(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Take the beginning of the body, and the rest when the test says so."""
        first = (await receive())["body"]
        self.seen.begun.set()
        await self.seen.go.wait()
        rest = await self._whole(receive)
        await reply(send, 200, b"%d" % (len(first) + len(rest or b"")))

    async def upload(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._whole(receive)
        await reply(send, 200, b"%d" % self.seen.received_bytes)

    async def _whole(self, receive: Receive) -> bytes | None:
        parts: list[bytes] = []
        more = True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                self.seen.disconnects += 1
                self.seen.gone.set()
                return None
            parts.append(message["body"])
            self.seen.received_bytes += len(message["body"])
            self.seen.begun.set()
            more = message["more_body"]
        return b"".join(parts)


async def reply(send: Send, status: int, body: bytes) -> None:
    await send({"type": "http.response.start", "status": status, "headers": [(LENGTH, b"%d" % len(body))]})
    await send({"type": "http.response.body", "body": body})


class JumpingClock(SystemClock):
    """The machine's clock, which a test can put forward."""

    ahead = 0.0

    def monotonic(self) -> float:
        return super().monotonic() + self.ahead


@dataclass
class Site:
    """A server that runs in a thread."""

    app: Application
    port: int
    loop: asyncio.AbstractEventLoop
    connections: Connections
    clock: JumpingClock

    def later(self, seconds: float) -> None:
        """Let so much time pass."""
        self.clock.ahead += seconds
        self.call(self.connections.look)

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=20)

    def talk(self, data: bytes) -> bytes:
        """Send everything, stop sending, and return all that comes back."""
        with self.connect() as client:
            try:
                client.sendall(data)
                client.shutdown(socket.SHUT_WR)
            except OSError:
                pass  # It hung up on us; what it said before is there to be read.
            return read_all(client)

    def call(self, function: Any, *args: Any) -> Any:
        """Call a function in the server's thread."""

        async def called() -> Any:
            return function(*args)

        return asyncio.run_coroutine_threadsafe(called(), self.loop).result(20)


def read_all(client: socket.socket) -> bytes:
    parts: list[bytes] = []
    while True:
        try:
            part = client.recv(1 << 20)
        except ConnectionResetError:
            return b"".join(parts)
        if not part:
            return b"".join(parts)
        parts.append(part)


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


class _Bytes:
    def __init__(self, stream: io.BytesIO) -> None:
        self.stream = stream

    def makefile(self, _mode: str) -> "_Bytes":
        return self

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)

    def close(self) -> None:
        pass


def answers(data: bytes, *, methods: list[str] | None = None) -> list[Answer]:
    """Return the replies that bytes hold, one after the other, each as Python's own client reads it."""
    stream = io.BytesIO(data)
    found: list[Answer] = []
    while stream.tell() < len(data):
        method = methods[len(found)] if methods else "GET"
        response = http.client.HTTPResponse(_Bytes(stream), method=method)  # type: ignore[arg-type]
        response.begin()
        found.append(
            Answer(
                response.status,
                {name.lower(): value for name, value in response.getheaders()},
                response.read(),
            )
        )
    return found


@contextmanager
def running_site(
    *, limit: int = 1000, held_bytes_max: int = HTTP_HELD_BYTES_MAX, tls: ssl.SSLContext | None = None
) -> Iterator[Site]:
    """Serve an application until the block ends."""
    started = threading.Event()
    made: list[Site] = []
    stop: list[asyncio.Event] = []

    async def serve() -> None:
        listening = bound("127.0.0.1", 0)
        clock = JumpingClock()
        connections = Connections(
            clock, RequestIds("test"), Balance([0]), limit=limit, held_bytes_max=held_bytes_max
        )
        app = Application()
        acceptor = Acceptor(listening, app, connections, tls=tls)
        acceptor.start()
        stop.append(asyncio.Event())
        made.append(Site(app, listening.getsockname()[1], asyncio.get_running_loop(), connections, clock))
        started.set()
        await stop[0].wait()
        acceptor.stop()
        await connections.end(1)

    thread = threading.Thread(target=lambda: uvloop.run(serve()))
    thread.start()
    assert started.wait(20)
    try:
        yield made[0]
    finally:
        made[0].loop.call_soon_threadsafe(stop[0].set)
        thread.join(20)
        assert not thread.is_alive()
