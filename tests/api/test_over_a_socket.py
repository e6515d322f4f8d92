"""What only a real connection shows: broken requests, lost clients, the document, many entries at once."""

import http.client
import socket
from base64 import b64encode
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import msgspec
import pytest

from lakebed.api.table import OPERATIONS
from lakebed.limits import JSON_BODY_BYTES_MAX
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
            # As `http.client` sends none by itself: uploads have no type, what was encoded here is JSON.
            kind = {"Content-Type": "application/json"} if data is not body else {}
            connection.request(method, url, data, {**self.headers, **kind, **(headers or {})})
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
        b"GET /api/v1/user HTTP/1.1\r\nHost: localhost\r\nX-Big: " + b"x" * 2_000_000 + b"\r\n\r\n",
        b"GET /" + b"a" * 200_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"POST /api/v1/auth/login HTTP/1.1\r\nHost: localhost\r\nContent-Length: -5\r\n\r\n",
        b"POST /api/v1/auth/login HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    ],
    ids=["version", "noise", "header", "path", "length", "chunk"],
)
def test_a_broken_request_harms_nobody(ask: Http, raw: bytes) -> None:
    host, port = ask.host.split(":")
    with socket.create_connection((host, int(port)), timeout=60) as connection:
        try:
            connection.sendall(raw)
            connection.shutdown(socket.SHUT_WR)
            answer = connection.recv(200)
        except OSError:
            answer = b""  # It hung up on us, which is an answer too.
    assert not answer.startswith(b"HTTP/1.1 5")
    assert ask("GET", "/api/v1/user")[0] == 200


FORM = b'--b\r\nContent-Disposition: form-data; name="content"\r\n\r\n'


def _files(folder: Path) -> set[str]:
    """Every file below a folder, by name."""
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def _ask_until(ask: Http, reached: Callable[[], bool], what: str) -> None:
    """Ask for anything until the server has got so far: each question gives it some time."""
    for _ in range(2000):
        if reached():
            return
        ask("GET", "/api/v1/user")
    pytest.fail(f"never: {what}")


@pytest.mark.parametrize(
    ("header", "begin"),
    [
        ("Content-Length: 9000000", b""),
        ("Content-Length: 9000000\r\nContent-Type: multipart/form-data; boundary=b", FORM),
        ("Transfer-Encoding: chunked", b"%x\r\n" % 8_000_000),
    ],
    ids=["raw", "form", "chunked"],
)
def test_a_client_that_is_lost_during_an_upload_leaves_nothing(
    server: ServerProcess, ask: Http, repo: str, header: str, begin: bytes
) -> None:
    size = 3_000_000  # More than goes through a journal.
    ask("POST", f"{repo}/branches/main/objects", query={"path": "whole"}, body=b"x" * size)
    store = server.folder / "data"
    (name,) = {path.parent for path in store.rglob("_lakebed") if path.parent.name == repo.rpartition("/")[2]}
    before = _files(name)
    host, port = ask.host.split(":")
    with socket.create_connection((host, int(port)), timeout=60) as connection:
        connection.sendall(
            f"POST {repo}/branches/main/objects?path=half HTTP/1.1\r\nHost: localhost\r\n"
            f"Authorization: {ask.headers['Authorization']}\r\n{header}\r\n\r\n".encode()
            + begin
            + b"x" * size
        )
        _ask_until(ask, lambda: not _files(name) <= before, "it is being written")
    _ask_until(ask, lambda: _files(name) <= before, "nothing of it is left")
    assert ask("GET", f"{repo}/refs/main/objects/stat", query={"path": "half"})[0] == 404
    assert ask("GET", "/api/v1/user")[0] == 200


@pytest.mark.parametrize(
    ("method", "path", "expected"),
    [
        ("PATCH", "/api/v1/repositories", 404),
        ("DELETE", "/api/v1/user", 404),
        ("OPTIONS", "/api/v1/user", 404),
        ("BREW", "/api/v1/user", 405),
        ("GET", "/api/v1/" + "a" * 20_000, 404),
        ("GET", "/api/v1/repositories/" + "a" * 20_000, 400),
        ("GET", "/api/v1/repositories/lake/refs/" + "a" * 20_000 + "/objects/ls", 404),
        ("GET", "/api/v1/" + "a/" * 5_000, 404),
        ("GET", "/api/v1/repositories?after=" + "a" * 20_000, 200),
        ("GET", "/api/v1/repositories?" + "&".join(f"x{n}=1" for n in range(3000)), 200),
        ("GET", "/api/v1", 404),
        ("GET", "/api/v10/user", 404),
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_wrong_method_or_a_long_path_is_4xx(ask: Http, method: str, path: str, expected: int) -> None:
    assert ask(method, path)[0] == expected


@pytest.mark.parametrize(
    "headers",
    [
        {"X-Long": "x" * 30_000},
        {"Cookie": "internal_auth_session=" + "x" * 30_000},
        {"Range": "bytes=" + ",".join(["0-1"] * 5000)},
        {"If-None-Match": '"' + "x" * 30_000 + '"'},
        {"X-Request-ID": "x" * 30_000},
        {"X-Request-ID": "\xff\xfe"},
        {"Content-Type": "multipart/form-data; boundary=" + "x" * 30_000},
        {f"X-Lakefs-Meta-{n}": "x" for n in range(80)},
    ],
    ids=["any", "cookie", "range", "etag", "id", "id-latin", "boundary", "many"],
)
def test_long_headers_are_taken_or_refused(ask: Http, repo: str, headers: dict[str, str]) -> None:
    for method in ("GET", "POST"):
        place = f"{repo}/branches/main/objects" if method == "POST" else f"{repo}/refs/main/objects"
        status, _ = ask(method, place, query={"path": "long"}, headers=headers)
        assert status < 500 or status == 501, "another ETag than * is not supported"


def test_a_json_body_without_end_is_refused_early(ask: Http, repo: str) -> None:
    host, port = ask.host.split(":")
    sent = 0
    with socket.create_connection((host, int(port)), timeout=30) as connection:
        connection.sendall(
            f"POST {repo}/branches HTTP/1.1\r\nHost: localhost\r\nAuthorization: {ask.headers['Authorization']}\r\n"
            "Transfer-Encoding: chunked\r\n\r\n".encode()
        )
        try:
            while sent < 4 * JSON_BODY_BYTES_MAX:
                connection.sendall(b"%x\r\n%b\r\n" % (1_000_000, b" " * 1_000_000))
                sent += 1_000_000
        except OSError:
            pass  # It hung up on us, which is what we wanted to see.
        else:
            answer = connection.recv(200)
            assert answer.startswith((b"HTTP/1.1 4", b""))
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
