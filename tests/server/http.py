"""Requests to a server process, each on a connection of its own."""

import http.client
import ssl
from base64 import b64encode
from typing import Any
from urllib.parse import urlencode, urlsplit

import msgspec

from lakebed.testing.server_process import ServerProcess

Answer = tuple[int, Any]

# How long a test waits for what must happen, on a machine whose processors are all busy with something else.
PATIENCE_SECONDS = 120.0


class Http:
    """The quickstart's user."""

    def __init__(self, server: ServerProcess, *, trusted: ssl.SSLContext | None = None) -> None:
        self.host = urlsplit(server.endpoint).netloc
        key = f"{server.access_key}:{server.secret_key}".encode()
        self.authorization = "Basic " + b64encode(key).decode()
        self._trusted = trusted

    def __call__(
        self, method: str, path: str, *, query: dict[str, str] | None = None, body: Any = None
    ) -> Answer:
        """Return the status and the decoded body."""
        status, data, _ = self.whole(method, f"/api/v1{path}", query=query, body=body)
        return status, msgspec.json.decode(data) if data.startswith((b"{", b"[")) else data

    def whole(
        self, method: str, path: str, *, query: dict[str, str] | None = None, body: Any = None
    ) -> tuple[int, bytes, dict[str, str]]:
        """Return status, body and headers of any route."""
        connection = (
            http.client.HTTPSConnection(self.host, timeout=30, context=self._trusted)
            if self._trusted
            else http.client.HTTPConnection(self.host, timeout=120)
        )
        data = body if isinstance(body, bytes | None) else msgspec.json.encode(body)
        url = path + (f"?{urlencode(query)}" if query else "")
        try:
            kind = {"Content-Type": "application/json"} if data is not body else {}
            connection.request(method, url, data, {"Authorization": self.authorization, **kind})
            answer = connection.getresponse()
            return answer.status, answer.read(), dict(answer.getheaders())
        finally:
            connection.close()
