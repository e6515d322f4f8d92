"""The real server, stopped and killed while clients write: what it acknowledged is there."""

import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from lakebed.testing.server_process import ServerProcess, running_server
from tests.server.http import PATIENCE_SECONDS, Http
from tests.server.load import BRANCH, load_on

pytestmark = pytest.mark.server


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[ServerProcess]:
    """A server with two workers and nothing beside them."""
    with running_server(tmp_path, workers=2, environment={"LAKEBED_COMPACTION": "off"}) as running:
        await_two_workers(running)
        yield running


def workers_of(server: ServerProcess) -> list[psutil.Process]:
    children = psutil.Process(server.process.pid).children()
    return [child for child in children if is_worker(child)]


def is_worker(process: psutil.Process) -> bool:
    try:
        return "spawn_main" in " ".join(process.cmdline())
    except psutil.NoSuchProcess:
        return False


def kill_all(server: ServerProcess) -> None:
    """Kill the supervisor first: it would replace a worker that died before it."""
    everybody = psutil.Process(server.process.pid).children(recursive=True)
    server.process.kill()
    for each in everybody:
        each.kill()
    psutil.wait_procs(everybody)


def test_killing_the_whole_server_under_load_loses_nothing_acknowledged(pair: ServerProcess) -> None:
    with load_on(pair) as load:
        load.wait_for(writes=60, commits=3)
        kill_all(pair)
    with running_server(pair.folder) as again:
        load.check(again)


def test_stopping_the_server_under_load_loses_nothing_and_ends_well(pair: ServerProcess) -> None:
    with load_on(pair) as load:
        load.wait_for(writes=60, commits=3)
        pair.process.send_signal(signal.SIGTERM)
    assert pair.process.wait(PATIENCE_SECONDS) == 0
    with running_server(pair.folder) as again:
        load.check(again)


class Begun:
    """A request whose handler waits for its body: the server has said that it wants it."""

    def __init__(self, ask: Http, path: str, body: bytes) -> None:
        host, port = ask.host.split(":")
        self._body = body
        self._socket = socket.create_connection((host, int(port)), timeout=PATIENCE_SECONDS)
        kind = "Content-Type: application/json\r\n" if body.startswith(b"{") else ""
        self._socket.sendall(
            f"POST /api/v1{path} HTTP/1.1\r\nHost: {ask.host}\r\nAuthorization: {ask.authorization}\r\n"
            f"{kind}Content-Length: {len(body)}\r\nExpect: 100-continue\r\n\r\n".encode()
        )
        self._answers = self._socket.makefile("rb")
        assert self._answers.readline().startswith(b"HTTP/1.1 100")
        assert self._answers.readline() == b"\r\n"

    def end(self) -> int:
        """Send the body, and return the status of the answer; `ConnectionError` without one."""
        self._socket.sendall(self._body)
        line = self._answers.readline()
        self._socket.close()
        if not line:
            raise ConnectionResetError
        return int(line.split()[1])


def await_refusal(ask: Http) -> None:
    host, port = ask.host.split(":")
    while True:
        try:
            socket.create_connection((host, int(port)), timeout=5).close()
        except ConnectionRefusedError:
            return
        except ConnectionResetError:
            continue


def test_a_request_that_was_begun_is_answered_although_the_server_is_told_to_stop(
    pair: ServerProcess,
) -> None:
    ask = Http(pair)
    ask("POST", "/repositories", body={"name": "lake", "storage_namespace": "local://lake"})
    assert ask("POST", f"{BRANCH}/objects", query={"path": "before"}, body=b"x")[0] == 201
    uploads = [Begun(ask, f"{BRANCH}/objects?path=upload-{number}", b"x" * 100_000) for number in range(4)]
    commit = Begun(ask, f"{BRANCH}/commits", b'{"message": "begun before the end"}')
    # As service managers do it: everybody is told, and the workers once more by their supervisor.
    for each in (pair.process, *workers_of(pair)):
        each.send_signal(signal.SIGTERM)
    await_refusal(ask)

    assert commit.end() == 201
    assert [upload.end() for upload in uploads] == [201] * 4
    assert pair.process.wait(PATIENCE_SECONDS) == 0

    with running_server(pair.folder) as again:
        ask = Http(again)
        _, listed = ask("GET", "/repositories/lake/refs/main/objects/ls")
        assert [each["path"] for each in listed["results"]] == ["before", *(f"upload-{n}" for n in range(4))]
        _, log = ask("GET", "/repositories/lake/refs/main/commits")
        assert log["results"][0]["message"] == "begun before the end"


def test_a_client_that_never_ends_its_request_does_not_keep_the_server_from_ending(tmp_path: Path) -> None:
    with running_server(tmp_path, environment={"LAKEBED_SHUTDOWN_SECONDS": "1"}) as server:
        ask = Http(server)
        ask("POST", "/repositories", body={"name": "lake", "storage_namespace": "local://lake"})
        stuck = Begun(ask, f"{BRANCH}/objects?path=never", b"x")
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(PATIENCE_SECONDS) == 0
        with pytest.raises(ConnectionError):
            stuck.end()


def test_a_worker_that_is_killed_comes_back_and_the_others_go_on(pair: ServerProcess) -> None:
    first, second = workers_of(pair)
    with load_on(pair) as load:
        load.wait_for(writes=20, commits=1)
        first.kill()
        load.wait_for(writes=20, commits=1)
        await_two_workers(pair)
        second.kill()
        load.wait_for(writes=20, commits=1)
        pair.process.send_signal(signal.SIGTERM)
    assert pair.process.wait(PATIENCE_SECONDS) == 0
    with running_server(pair.folder) as again:
        load.check(again)


def await_two_workers(server: ServerProcess) -> None:
    end = time.monotonic() + PATIENCE_SECONDS
    while len(workers_of(server)) < 2:
        assert time.monotonic() < end, "the server does not have two workers"
        time.sleep(0.05)


def test_workers_listen_to_their_supervisor_alone_and_end_with_it(pair: ServerProcess) -> None:
    workers = workers_of(pair)
    # Ctrl-C reaches everybody at once, and workers that are still starting too.
    for worker in workers:
        worker.send_signal(signal.SIGINT)
    assert Http(pair)("GET", "/user")[0] == 200
    assert [worker.pid for worker in workers_of(pair)] == [worker.pid for worker in workers]
    pair.process.kill()
    _, alive = psutil.wait_procs(workers, timeout=PATIENCE_SECONDS)
    assert not alive
