"""A few of the kills of `tests.server.kills`, which is run a hundred times before a release: `make kills`."""

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import psutil
import pytest

from lakebed.testing.server_process import ServerProcess
from tests.server import kills
from tests.server.kills import VICTIMS, Client, Site, run


@pytest.mark.server
def test_kill_9_of_each_kind_of_process_under_load_loses_and_revives_nothing(tmp_path: Path) -> None:
    assert run(tmp_path, list(VICTIMS), seed=1) > 10


@pytest.fixture
def hanging_up(tmp_path: Path) -> Iterator[Site]:
    """A server that says who it is, and hangs up on whoever writes."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self.send_response(204)
            self.send_header("x-request-id", "somebody-1")
            self.end_headers()

        def do_POST(self) -> None:
            self.close_connection = True

        def log_message(self, *_args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as served:
        thread = threading.Thread(target=served.serve_forever)
        thread.start()
        with subprocess.Popen([sys.executable, "-c", ""]) as ended:
            endpoint = f"http://127.0.0.1:{served.server_port}"
            yield Site(tmp_path, ServerProcess(endpoint, tmp_path, tmp_path, ended))
        served.shutdown()
        thread.join()


def test_a_request_without_an_answer_has_ended_if_its_process_is_dead(hanging_up: Site) -> None:
    assert hanging_up.server is not None
    dead = psutil.Process(hanging_up.server.process.pid)
    hanging_up.server.process.wait()
    hanging_up.processes["somebody"] = dead

    assert Client(hanging_up, "c0", "main", "1")._send("write 1", "/", b"") is None

    assert hanging_up.unanswered == [f"write 1: {dead.pid} died"]


def test_a_live_process_that_does_not_answer_is_not_taken_for_a_dead_one(
    hanging_up: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    hanging_up.processes["somebody"] = psutil.Process(os.getpid())
    monkeypatch.setattr(kills, "DYING_SECONDS", 0.0)

    with pytest.raises(AssertionError, match="is alive, and did not answer"):
        Client(hanging_up, "c0", "main", "1")._send("write 1", "/", b"")
