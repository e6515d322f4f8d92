"""Four clients that upload, stage and commit until the server is gone, and remember what it acknowledged."""

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import HTTPException

from lakebed.testing.server_process import ServerProcess
from tests.server.http import Answer, Http

CLIENTS = 4
BRANCH = "/repositories/lake/branches/main"


@dataclass
class Load:
    """What was acknowledged, and a bell that rings at each acknowledgement."""

    written: dict[str, int] = field(default_factory=dict)
    """Size by path."""
    commits: set[str] = field(default_factory=set)
    odd: list[Answer] = field(default_factory=list)
    """Answers that are neither yes nor an expected no."""
    _bell: threading.Condition = field(default_factory=threading.Condition)

    def wait_for(self, *, writes: int, commits: int) -> None:
        """Return when so much more was acknowledged."""
        with self._bell:
            writes, commits = writes + len(self.written), commits + len(self.commits)
            reached = self._bell.wait_for(
                lambda: len(self.written) >= writes and len(self.commits) >= commits, timeout=180
            )
        assert reached, f"only {len(self.written)} writes and {len(self.commits)} commits in three minutes"

    def client(self, server: ServerProcess, name: str) -> None:
        """Work until the server has ended, whatever happens to single requests."""
        ask = Http(server)
        number = 0
        while server.process.poll() is None:
            number += 1
            try:
                self._step(ask, server, name, number)
            except (OSError, HTTPException):
                # Clients that hammer at a closed door take the time of those who open it.
                time.sleep(0.02)

    def _step(self, ask: Http, server: ServerProcess, name: str, number: int) -> None:
        path = f"{name}/{number:05}"
        if number % 5 == 0:
            status, answer = ask("POST", f"{BRANCH}/commits", body={"message": path})
            self._heard(status, answer, (201, 400), commit=answer["id"] if status == 201 else "")
        elif number % 5 == 1:
            staged = {
                "physical_address": f"local://{server.imports}/staged",
                "checksum": "c",
                "size_bytes": 6,
            }
            entries = {"entries": [{"path": path, **staged}]}
            status, answer = ask("POST", f"{BRANCH}/staging/entries", body=entries)
            self._heard(status, answer, (204,), path=path, size=6)
        else:
            content = path.encode() * number
            status, answer = ask("POST", f"{BRANCH}/objects", query={"path": path}, body=content)
            self._heard(status, answer, (201,), path=path, size=len(content))

    def _heard(
        self,
        status: int,
        answer: object,
        expected: tuple[int, ...],
        *,
        path: str = "",
        size: int = 0,
        commit: str = "",
    ) -> None:
        with self._bell:
            if status not in expected:
                self.odd.append((status, answer))
            elif path:
                self.written[path] = size
            elif commit:
                self.commits.add(commit)
            self._bell.notify_all()

    def check(self, server: ServerProcess) -> None:
        """Everything that was acknowledged is there, whole."""
        ask = Http(server)
        for path, size in self.written.items():
            status, stat = ask("GET", "/repositories/lake/refs/main/objects/stat", query={"path": path})
            assert (status, stat.get("size_bytes")) == (200, size), path
        _, log = ask("GET", "/repositories/lake/refs/main/commits", query={"amount": "1000"})
        assert self.commits <= {commit["id"] for commit in log["results"]}
        assert not self.odd


@contextmanager
def load_on(server: ServerProcess) -> Iterator[Load]:
    """Let the clients loose on a new repository `lake`. They end with the server, which the block must end."""
    status, _ = Http(server)(
        "POST", "/repositories", body={"name": "lake", "storage_namespace": "local://lake"}
    )
    assert status == 201
    (server.imports / "staged").write_bytes(b"staged")
    load = Load()
    with ThreadPoolExecutor(CLIENTS) as threads:
        ends = [threads.submit(load.client, server, f"client-{number}") for number in range(CLIENTS)]
        yield load
        for end in ends:
            end.result()
