"""Sends a recorded request as the client sent it, over connections that are kept."""

import base64
import http.client
import json
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

from tests.contract.exchanges import Request
from tests.contract.placeholders import Bindings

_BOUNDARY: Final = "boundary-of-the-replay"
_TIMEOUT_SECONDS: Final = 60


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes


class Sender:
    """Sends the requests of one scenario to a server, and to presigned URLs."""

    def __init__(self, endpoint: str, bindings: Bindings) -> None:
        self._endpoint = endpoint
        self._bindings = bindings
        self._connections: dict[str, http.client.HTTPConnection] = {}

    def send(self, request: Request) -> Answer:
        headers = {
            name: self._bindings.fill(value)
            for name, value in request.headers.items()
            if "<BOUNDARY>" not in value
        }
        authorization = self._authorization(request.auth)
        if authorization is not None:
            headers["authorization"] = authorization
        if request.body is not None and "form" in request.body:
            headers["content-type"] = f"multipart/form-data; boundary={_BOUNDARY}"
        body = self._body(request.body)
        target = self._bindings.fill(request.target)
        url = urlsplit(target if request.url else self._endpoint)
        if request.url:
            target = url.path + (f"?{url.query}" if url.query else "")
        connection = self._connections.setdefault(
            url.netloc, http.client.HTTPConnection(url.netloc, timeout=_TIMEOUT_SECONDS)
        )
        return _exchange(connection, request.method, target, body, headers)

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()

    def _authorization(self, auth: str) -> str | None:
        match auth:
            case "none":
                return None
            case "admin":
                return self._basic("<KEY>", "<SECRET>")
            case "wrong-secret":
                return self._basic("<KEY>", "wrong")
            case "unknown-key":
                return self._basic("AKIAUNKNOWNUNKNOWN01", "wrong")
            case "bearer:malformed":
                return "Bearer no.token.here"
            case "other":
                return "Unheard-of scheme"
            case _:
                scheme, _, token = auth.partition(":")
                assert scheme == "bearer", auth
                return f"Bearer {self._bindings.fill(token)}"

    def _basic(self, key: str, secret: str) -> str:
        pair = self._bindings.fill(f"{key}:{secret}")
        return "Basic " + base64.b64encode(pair.encode()).decode()

    def _body(self, body: dict[str, Any] | None) -> bytes | None:
        match body:
            case None:
                return None
            case {"json": value}:
                return json.dumps(self._bindings.fill_json(value)).encode()
            case {"text": text}:
                return self._bindings.fill(text).encode()
            case {"repeat": [text, times]}:
                return bytes(text * times, "utf-8")
            case {"form": parts}:
                return b"".join(map(self._part, parts)) + f"--{_BOUNDARY}--\r\n".encode()
            case _:
                raise AssertionError(body)

    def _part(self, part: dict[str, Any]) -> bytes:
        lines = [f"--{_BOUNDARY}", f'Content-Disposition: form-data; name="{part["name"]}"']
        if part.get("filename"):
            lines[1] += f'; filename="{part["filename"]}"'
        if part.get("content-type"):
            lines.append(f"Content-Type: {part['content-type']}")
        head = "\r\n".join(lines).encode()
        return head + b"\r\n\r\n" + (self._body(part["body"]) or b"") + b"\r\n"


def _exchange(
    connection: http.client.HTTPConnection,
    method: str,
    target: str,
    body: bytes | None,
    headers: dict[str, str],
) -> Answer:
    try:
        connection.request(method, target, body, headers)
        answer = connection.getresponse()
    except (http.client.RemoteDisconnected, BrokenPipeError, ConnectionResetError):
        # The server closed the kept connection meanwhile.
        connection.close()
        connection.request(method, target, body, headers)
        answer = connection.getresponse()
    read = answer.read()
    return Answer(answer.status, {name.lower(): value for name, value in answer.getheaders()}, read)
