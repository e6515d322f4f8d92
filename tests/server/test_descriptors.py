"""A server with few file descriptors: clients beyond its limit do not take those that it works with."""

import http.client
import socket
from base64 import b64encode
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlsplit

import psutil
import pytest

from lakebed.testing.server_process import ServerProcess, running_server

DESCRIPTORS = 256
LIMIT = DESCRIPTORS // 2

pytestmark = pytest.mark.server


class Client:
    """The quickstart's user on one connection that stays open."""

    def __init__(self, server: ServerProcess) -> None:
        key = b64encode(f"{server.access_key}:{server.secret_key}".encode()).decode()
        self._headers = {"Authorization": f"Basic {key}", "Content-Type": "application/json"}
        self.connection = http.client.HTTPConnection(urlsplit(server.endpoint).netloc, timeout=30)

    def __call__(self, method: str, path: str, body: bytes | None = None) -> int:
        self.connection.request(method, f"/api/v1{path}", body, self._headers)
        answer = self.connection.getresponse()
        answer.read()
        return answer.status


def test_a_flood_of_connections_does_not_stop_those_that_were_accepted(tmp_path: Path) -> None:
    with running_server(tmp_path, descriptors=DESCRIPTORS) as server, ExitStack() as stack:
        host, port = urlsplit(server.endpoint).hostname, urlsplit(server.endpoint).port
        accepted = [Client(server) for _ in range(LIMIT)]
        for client in accepted:
            stack.callback(client.connection.close)
        body = b'{"name": "lake", "storage_namespace": "local://lake"}'
        assert accepted[0]("POST", "/repositories", body) == 201
        for client in accepted[1:]:
            assert client("GET", "/user") == 200
        flood = [
            stack.enter_context(socket.create_connection((host, port), timeout=30))
            for _ in range(2 * DESCRIPTORS)
        ]
        # Uploads and reads open files while the flood is there.
        for number, client in enumerate(accepted[:20]):
            objects = f"/repositories/lake/branches/main/objects?path={number}"
            assert client("POST", objects, b"x" * 100_000) == 201
            reads = f"/repositories/lake/refs/main/objects?path={number}"
            assert client("GET", reads) == 200
        assert flood[-1].recv(1000).startswith(b"HTTP/1.1 503 ")
        workers = psutil.Process(server.process.pid).children()
        assert max(worker.num_fds() for worker in workers) < DESCRIPTORS - 20
    assert "cannot_accept" not in (tmp_path / "server.log").read_text()
