"""`Call`: one request, as a handler sees it.

Path parameters, query and headers have been decoded to the types of the operation;
a body of JSON too. A raw body is read by the handler, once, in chunks.
"""

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from lakebed.api.services import Services
from lakebed.catalog.session import Session
from lakebed.http.held import Hold
from lakebed.http.reply import Receive

S = TypeVar("S")


class ClientGoneError(Exception):
    """The client hung up in the middle of its request: there is no one to answer."""


@dataclass(slots=True)
class Call:
    """One request."""

    session: Session
    """The use cases, with the permissions of whoever calls."""
    services: Services
    path: Mapping[str, str]
    raw_headers: Mapping[bytes, bytes]
    request_id: str
    peer: str
    """The address at the other end of the connection: a client, or a proxy."""
    hold: Hold
    """What this request holds of its body."""
    _query: Any
    _headers: Any
    _body: Any
    _receive: Receive

    def query(self, _type: type[S]) -> S:
        """Return the query; `_type` must be the operation's."""
        return cast("S", self._query)

    def headers(self, _type: type[S]) -> S:
        """Return the headers; `_type` must be the operation's."""
        return cast("S", self._headers)

    def body(self, _type: type[S]) -> S:
        """Return the JSON body; `_type` must be the operation's."""
        return cast("S", self._body)

    async def chunks(self) -> AsyncIterator[bytes]:
        """Yield a raw body as it arrives.

        Raises:
            ClientGoneError: the client hung up before the end.
        """
        more = True
        while more:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                raise ClientGoneError
            more = message.get("more_body", False)
            if message.get("body"):
                yield message["body"]
