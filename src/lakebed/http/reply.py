"""`Reply`: what a handler answers, and how it is sent."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, MutableMapping
from typing import Any

import msgspec
from msgspec.structs import replace

Scope = Mapping[str, Any]
Receive = Callable[[], Awaitable[Mapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


Header = tuple[bytes, bytes]
Headers = tuple[Header, ...]

_BODILESS = (204, 304)


class Reply(msgspec.Struct, frozen=True):
    """A status, headers, and a body: bytes, or chunks that are sent as they come."""

    status: int
    body: bytes | AsyncIterator[bytes] = b""
    headers: Headers = ()
    length: int | None = None
    """How long a streamed body is, or the body that a HEAD leaves out; None for bytes that are sent."""


def headers_of(scope: Scope) -> dict[bytes, bytes]:
    """Return the headers by name, of repeated ones the last; our own server has them so already."""
    named: dict[bytes, bytes] | None = scope.get("named")
    return named if named is not None else dict(scope["headers"])


async def begun(reply: Reply) -> Reply:
    """Return the reply with the first chunk of a stream at hand: what is wrong with it shows before the status is sent."""
    chunks = reply.body
    if isinstance(chunks, bytes):
        return reply
    first = await anext(chunks, b"")
    if len(first) == reply.length:
        return replace(reply, body=first)

    async def whole() -> AsyncIterator[bytes]:
        yield first
        async for chunk in chunks:
            yield chunk

    return replace(reply, body=whole())


async def send_reply(reply: Reply, send: Send, extra: Header, *, head: bool) -> None:
    """Send a reply with one more header; `head` if the request wants everything but the body."""
    body = reply.body
    length = len(body) if isinstance(body, bytes) and reply.length is None else reply.length
    headers = [*reply.headers, extra]
    if length is not None and reply.status not in _BODILESS:
        headers.append((b"content-length", b"%d" % length))
    await send({"type": "http.response.start", "status": reply.status, "headers": headers})
    if isinstance(body, bytes) or head:
        sent = body if isinstance(body, bytes) and not head else b""
        await send({"type": "http.response.body", "body": sent})
        return
    async for chunk in body:
        await send({"type": "http.response.body", "body": chunk, "more_body": True})
    await send({"type": "http.response.body", "body": b""})
