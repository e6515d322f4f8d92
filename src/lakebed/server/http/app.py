"""The application as the server calls it: ASGI's scope, receive and send."""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

Scope = dict[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]


class ClientGoneError(ConnectionError):
    """Nobody reads the rest of a reply: what makes it may stop. Raised by `send`, and heard by the server itself."""
