"""`AsgiClient`: requests to an ASGI application in this process, without a socket.

Fast enough to ask every operation for every role, and able to do what a well-behaved
HTTP client cannot: hang up in the middle, send broken paths and headers.
"""

from base64 import b64encode
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, unquote, urlencode

import msgspec

App = Callable[[Mapping[str, Any], Callable[[], Awaitable[Any]], Callable[[Any], Awaitable[None]]], Any]


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        """Return the decoded body."""
        return msgspec.json.decode(self.body)

    @property
    def message(self) -> str:
        """The reference's phrase for an error, or our text where it has none."""
        return str(self.json()["message"])

    @property
    def detail(self) -> str:
        """What an error says of ours, wherever it says it."""
        return str(self.json().get("detail") or self.message)


def basic(access_key: str, secret: str) -> str:
    """Return the `Authorization` header of an access key."""
    return "Basic " + b64encode(f"{access_key}:{secret}".encode()).decode()


@dataclass(slots=True)
class AsgiClient:
    """Calls `app` with paths below `root`, as whoever `authorization` says."""

    app: App
    authorization: str | None = None
    root: str = "/api/v1"
    extra: Mapping[str, str] = field(default_factory=dict)

    def as_user(self, authorization: str | None) -> "AsgiClient":
        """Return a client of the same application for somebody else."""
        return AsgiClient(self.app, authorization, self.root)

    async def __call__(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | Sequence[tuple[str, Any]] | str = "",
        json: Any = msgspec.UNSET,
        body: bytes | Iterable[bytes] = b"",
        headers: Mapping[str, str] | None = None,
        hang_up: bool = False,
        peer: str = "",
    ) -> Answer:
        """Send a request and return the whole answer. `path` is percent-encoded; `hang_up` ends in the middle.

        `peer` is the address that it seems to come from.
        """
        sent = {**self.extra, **(headers or {})}
        if self.authorization is not None:
            sent.setdefault("authorization", self.authorization)
        if json is not msgspec.UNSET:
            body = msgspec.json.encode(json)
            sent.setdefault("content-type", "application/json")
        chunks = [body] if isinstance(body, bytes) else list(body)
        query_string = query if isinstance(query, str) else urlencode(query, doseq=True)
        scope: dict[str, Any] = {
            "type": "http",
            "client": (peer, 1) if peer else None,
            "method": method,
            "path": unquote(self.root + path, errors="replace"),
            "raw_path": (self.root + path).encode(),
            "query_string": query_string.encode(),
            "headers": [(name.lower().encode(), value.encode("latin-1")) for name, value in sent.items()],
        }
        return await _ask(self.app, scope, chunks, hang_up=hang_up)


async def _ask(app: App, scope: Mapping[str, Any], chunks: list[bytes], *, hang_up: bool) -> Answer:
    waiting = list(chunks)
    received: list[MutableMapping[str, Any]] = []

    async def receive() -> Mapping[str, Any]:
        if waiting:
            return {
                "type": "http.request",
                "body": waiting.pop(0),
                "more_body": bool(waiting) or hang_up,
            }
        return {"type": "http.disconnect"}

    async def send(message: MutableMapping[str, Any]) -> None:
        received.append(message)

    await app(scope, receive, send)
    if not received:
        return Answer(0, {}, b"")
    start = received[0]
    headers = {name.decode(): value.decode("latin-1") for name, value in start["headers"]}
    return Answer(start["status"], headers, b"".join(each.get("body", b"") for each in received[1:]))


def segment(text: str) -> str:
    """Return `text` as one segment of a path."""
    return quote(text, safe="")
