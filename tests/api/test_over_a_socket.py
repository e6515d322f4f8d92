"""What only a real connection shows: broken requests, lost clients, the document, many entries at once."""

import http.client
import socket
from base64 import b64encode
from typing import Any
from urllib.parse import urlencode, urlsplit

import msgspec
import pytest

from lakebed.api.table import OPERATIONS
from lakebed.testing.server_process import ServerProcess
from tests.api.clients import fresh_name

pytestmark = [pytest.mark.server, pytest.mark.xdist_group("server")]


class Http:
    """Requests of the quickstart's user."""

    def __init__(self, server: ServerProcess) -> None:
        self.host = urlsplit(server.endpoint).netloc
        key = f"{server.access_key}:{server.secret_key}".encode()
        self.headers = {"Authorization": "Basic " + b64encode(key).decode()}

    def __call__(
        self,
        method: str,
        path: str,
        *,
        query: dict[str, Any] | None = None,
        body: Any = None,
        headers: dict[str, str] | None = None,
    ) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection(self.host, timeout=30)
        data = body if isinstance(body, bytes | None) else msgspec.json.encode(body)
        url = path + ("?" + urlencode(query) if query else "")
        try:
            connection.request(method, url, data, {**self.headers, **(headers or {})})
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()


@pytest.fixture
def ask(server: ServerProcess) -> Http:
    return Http(server)


@pytest.fixture
def repo(ask: Http) -> str:
    name = fresh_name("socket")
    status, _ = ask(
        "POST", "/api/v1/repositories", body={"name": name, "storage_namespace": f"local://{name}"}
    )
    assert status == 201
    return f"/api/v1/repositories/{name}"


def test_the_document_is_published(ask: Http) -> None:
    status, body = ask("GET", "/openapi.json")
    assert status == 200
    paths = msgspec.json.decode(body)["paths"]
    assert sum(map(len, paths.values())) == len(OPERATIONS)


@pytest.mark.parametrize(
    "raw",
    [
        b"GET / HTTP/9.9\r\n\r\n",
        b"\x00\x01\x02\r\n\r\n",
        b"GET /api/v1/user HTTP/1.1\r\nHost: x\r\nX-Big: " + b"x" * 2_000_000 + b"\r\n\r\n",
        b"GET /" + b"a" * 200_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
        b"POST /api/v1/auth/login HTTP/1.1\r\nHost: x\r\nContent-Length: -5\r\n\r\n",
        b"POST /api/v1/auth/login HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    ],
    ids=["version", "noise", "header", "path", "length", "chunk"],
)
def test_a_broken_request_harms_nobody(ask: Http, raw: bytes) -> None:
    host, port = ask.host.split(":")
    with socket.create_connection((host, int(port)), timeout=10) as connection:
        try:
            connection.sendall(raw)
            connection.shutdown(socket.SHUT_WR)
            answer = connection.recv(200)
        except OSError:
            answer = b""  # It hung up on us, which is an answer too.
    assert not answer.startswith(b"HTTP/1.1 5")
    assert ask("GET", "/api/v1/user")[0] == 200


def test_a_client_that_is_lost_during_an_upload_leaves_nothing(ask: Http, repo: str) -> None:
    host, port = ask.host.split(":")
    with socket.create_connection((host, int(port)), timeout=10) as connection:
        connection.sendall(
            f"POST {repo}/branches/main/objects?path=half HTTP/1.1\r\nHost: x\r\n"
            f"Authorization: {ask.headers['Authorization']}\r\nContent-Length: 1000000\r\n\r\n".encode()
            + b"x" * 1000
        )
    assert ask("GET", f"{repo}/refs/main/objects/stat", query={"path": "half"})[0] == 404
    assert ask("GET", "/api/v1/user")[0] == 200


def test_an_upload_of_many_chunks_is_stored_whole(ask: Http, repo: str) -> None:
    content = bytes(range(251)) * 80_000
    status, _ = ask("POST", f"{repo}/branches/main/objects", query={"path": "big"}, body=content)
    assert status == 201
    assert ask("GET", f"{repo}/refs/main/objects", query={"path": "big"}) == (200, content)
    part = ask(
        "GET", f"{repo}/refs/main/objects", query={"path": "big"}, headers={"Range": "bytes=9000000-9000009"}
    )
    assert part == (206, content[9_000_000:9_000_010])


def test_many_entries_are_staged_at_once(server: ServerProcess, ask: Http, repo: str) -> None:
    (server.imports / "many").write_bytes(b"content")
    entries = [
        {
            "path": f"p/{number:05d}",
            "physical_address": f"local://{server.imports}/many",
            "checksum": "c",
            "size_bytes": 7,
        }
        for number in range(2000)
    ]
    status, body = ask("POST", f"{repo}/branches/main/staging/entries", body={"entries": entries})
    assert (status, body) == (204, b"")
    assert ask("GET", f"{repo}/refs/main/objects", query={"path": "p/01999"}) == (200, b"content")
    assert ask("POST", f"{repo}/branches/main/commits", body={"message": "many"})[0] == 201


@pytest.mark.parametrize("path", ["a\0b", "x" * 1025, "é" * 600, "..", "/", "//", " ", "a" * 300 + "/b"])
def test_an_odd_path_is_kept_or_refused(ask: Http, repo: str, path: str) -> None:
    status, _ = ask("POST", f"{repo}/branches/main/objects", query={"path": path}, body=b"x")
    assert status in (201, 400)
    found = ask("GET", f"{repo}/refs/main/objects", query={"path": path})
    assert found == (200, b"x") if status == 201 else found[0] in (400, 404)
