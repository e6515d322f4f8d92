"""`kill -9` of workers, compactors and supervisors of a real server under load, many times.

    python -m tests.server.kills --times 100 [--seed 1]

Four clients write, overwrite, delete in bulk and commit on two branches, and say beforehand what they are about to do. After each
kill, and once the server is whole again, the clients pause, and everything is compared: each path holds what was acknowledged,
or what was under way when a process died; what was deleted stays deleted; every acknowledged commit is in the log, once, and
holds what it should; and after a restart nothing is left in `tmp/`.

A request without an answer counts as ended only if the process that had it is dead: a client asks each connection who is at its
other end before it writes. A live process that does not answer fails the run by itself. So while the clients pause nothing is
under way, and an object that is listed and then not found was lost.
"""

import argparse
import hashlib
import http.client
import random  # noqa: TID251  a seed decides who is killed, and when
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlencode

import msgspec
import psutil
import pyarrow as pa

from lakebed.format.handed_in import segment_of
from lakebed.testing.server_process import ServerProcess, running_server
from tests.crash.history import History, Value
from tests.server.http import Http

BRANCHES = ("main", "dev")
CLIENTS = 4
VICTIMS = {"worker": 5, "compactor": 2, "supervisor": 3}
PATHS = 40
# Compaction has something to do within seconds.
ENVIRONMENT = {
    "LAKEBED_COMPACTOR_FOLD_LAYERS": "2",
    "LAKEBED_COMPACTOR_FOLD_QUIET_SECONDS": "1",
    "LAKEBED_COMPACTOR_TREE_LAYERS": "4",
    "LAKEBED_COMPACTOR_LEASE_SECONDS": "2",
    "LAKEBED_STAGING_SEGMENTS": "always",
}
# In the folder for work in progress: what a running server has there.
_IN_USE = frozenset({"metrics"})
_PATIENCE_SECONDS = 120.0
# How long a process may take from the end of its connections to its own: one without a supervisor ends what it does.
DYING_SECONDS = 60.0


@dataclass
class Site:
    """A server that is started again when its supervisor was killed, and what its clients know."""

    folder: Path
    server: ServerProcess | None = None
    histories: dict[str, History] = field(default_factory=lambda: {name: History() for name in BRANCHES})
    lock: threading.Lock = field(default_factory=threading.Lock)
    running: threading.Event = field(default_factory=threading.Event)
    idle: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    stopped: bool = False
    answers: Counter[int] = field(default_factory=Counter)
    unanswered: list[str] = field(default_factory=list)
    clients: "list[Future[None]]" = field(default_factory=list)
    processes: dict[str, psutil.Process] = field(default_factory=dict)
    """By the name that each gives its requests."""
    stack: ExitStack = field(default_factory=ExitStack)

    def start(self) -> None:
        self.stack.close()
        self.server = self.stack.enter_context(
            running_server(self.folder, workers=2, environment=ENVIRONMENT)
        )

    def ask(self) -> Http:
        assert self.server is not None, "started"
        return Http(self.server)

    @contextmanager
    def line(self) -> "Iterator[tuple[http.client.HTTPConnection, psutil.Process]]":
        """Connect to a process, and find out which."""
        with closing(http.client.HTTPConnection(self.ask().host, timeout=_PATIENCE_SECONDS)) as connection:
            connection.connect()
            # What follows goes to the same process, or nowhere.
            connection.auto_open = 0
            connection.request("GET", "/api/v1/healthcheck")
            answer = connection.getresponse()
            answer.read()
            name = (answer.getheader("x-request-id") or "").rpartition("-")[0]
            assert name, "a process gives its name with each answer"
            with self.lock:
                if name not in self.processes:
                    self.processes[name] = self._at_other_end(connection)
                process = self.processes[name]
            yield connection, process

    def _at_other_end(self, connection: http.client.HTTPConnection) -> psutil.Process:
        assert self.server is not None, "started"
        port = connection.sock.getsockname()[1]
        try:
            for child in psutil.Process(self.server.process.pid).children():
                if any(each.raddr and each.raddr.port == port for each in child.net_connections("tcp")):
                    return child
        except psutil.NoSuchProcess:
            pass
        raise ConnectionAbortedError("whoever answered is gone")

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Let every client end what it does, and wait."""
        self.running.clear()
        for _ in range(CLIENTS):
            assert self.idle.acquire(timeout=3 * _PATIENCE_SECONDS), "a client does not come to an end"
        for client in self.clients:
            assert not client.done() or client.result(), "a client ended"
        yield
        self.running.set()

    def check(self, *, restarted: bool) -> None:
        """Compare everything; the clients are paused."""
        ask = self.ask()
        for branch in BRANCHES:
            history = self.histories[branch]
            history.check_branch(checksums(ask, branch, read=True))
            _, log = ask("GET", f"/repositories/lake/refs/{branch}/commits", query={"amount": "1000"})
            assert not log["pagination"]["has_more"]
            made = [(each["id"], each["message"]) for each in log["results"] if each["parents"]]
            for commit_id in history.check_log(made):
                history.check_commit(commit_id, checksums(ask, commit_id))
        if restarted:
            left = {path.name for path in (self.folder / "data" / "tmp").iterdir()} - _IN_USE
            assert not left, f"left in tmp/: {sorted(left)}"


class Client:
    """One writer of its own paths on one branch; it does one thing at a time."""

    def __init__(self, site: Site, name: str, branch: str, seed: str) -> None:
        self._site = site
        self._name = name
        self._branch = branch
        self._chance = random.Random(seed)
        self._number = 0

    def work(self) -> None:
        """Work until the end, whatever happens to single requests."""
        try:
            self._work()
        finally:
            self._site.idle.release()

    def _work(self) -> None:
        while not self._site.stopped:
            if not self._site.running.is_set():
                self._site.idle.release()
                self._site.running.wait()
                continue
            self._number += 1
            kind = self._chance.choices(("upload", "large", "delete", "commit"), (10, 1, 1, 2))[0]
            if kind == "commit":
                self._commit()
            elif kind == "delete":
                self._delete()
            else:
                self._upload(300_000 if kind == "large" else 100)

    def _upload(self, size: int) -> None:
        path = f"{self._name}/{self._chance.randrange(PATHS):03}"
        data = f"{self._name} {self._number} ".encode() * (size // 20)
        values = {path: hashlib.md5(data).hexdigest()}
        self._change(values, "objects", {"path": path}, data, (201,))

    def _delete(self) -> None:
        paths = sorted(f"{self._name}/{n:03}" for n in self._chance.sample(range(PATHS), 5))
        nothing = {"address": [""] * 5, "checksum": [""] * 5, "size": [0] * 5, "mtime": [0] * 5}
        data = segment_of(pa.table({"path": paths, "deleted": [True] * 5, **nothing}))
        values: dict[str, Value] = dict.fromkeys(paths)
        self._change(values, "staging/segments", {"prefix": f"{self._name}/"}, data, (200, 201))

    def _change(
        self,
        values: "dict[str, str] | dict[str, Value]",
        where: str,
        query: dict[str, str],
        data: bytes,
        good: tuple[int, ...],
    ) -> None:
        site, operation = self._site, f"{self._name} {self._number}"
        with site.lock:
            site.histories[self._branch].write_begins(operation, values)
        url = f"/api/v1/repositories/lake/branches/{self._branch}/{where}?{urlencode(query)}"
        answer = self._send(operation, url, data)
        if answer is None or answer[0] >= 500:
            # It may have happened or not, and is over: what is shown now stays.
            shown = self._shown(values)
            acknowledged = shown == dict(values)
            before = {p: site.histories[self._branch].acknowledged.get(p) for p in values}
            assert acknowledged or shown == before, f"{operation}: {shown} is neither {before} nor {values}"
        else:
            acknowledged = answer[0] in good
        with site.lock:
            site.histories[self._branch].write_ends(operation, acknowledged=acknowledged)

    def _commit(self) -> None:
        site, message = self._site, f"{self._name} {self._number}"
        with site.lock:
            site.histories[self._branch].commit_begins(message)
        url = f"/api/v1/repositories/lake/branches/{self._branch}/commits"
        answer = self._send(message, url, msgspec.json.encode({"message": message}), "application/json")
        if answer is None or answer[0] >= 500:
            return  # Whether it was made, the log will tell.
        status, data = answer
        with site.lock:
            made = msgspec.json.decode(data)["id"] if status == 201 else None
            site.histories[self._branch].commit_ends(message, made)

    def _send(self, operation: str, url: str, data: bytes, kind: str = "") -> tuple[int, bytes] | None:
        """Post something, and return the answer; None if it was not sent, or if the process that had it is dead."""
        process: psutil.Process | None = None
        headers = {
            "Authorization": self._site.ask().authorization,
            **({"Content-Type": kind} if kind else {}),
        }
        try:
            with self._site.line() as (connection, process):
                connection.request("POST", url, data, headers)
                answer = connection.getresponse()
                status, body = answer.status, answer.read()
        except (OSError, http.client.HTTPException) as error:
            if process is None:
                time.sleep(0.02)
                return None
            if not is_dead(process):
                # It may do it at any time: nothing could be said of the path any more.
                raise AssertionError(
                    f"{operation}: process {process.pid} is alive, and did not answer"
                ) from error
            with self._site.lock:
                self._site.unanswered.append(f"{operation}: {process.pid} died")
            return None
        with self._site.lock:
            self._site.answers[status] += 1
        return status, body

    def _shown(self, values: "dict[str, str] | dict[str, Value]") -> "dict[str, Value]":
        return {path: self._stat(path) for path in values}

    def _stat(self, path: str) -> Value:
        end = time.monotonic() + _PATIENCE_SECONDS
        while time.monotonic() < end:
            try:
                status, stat = self._site.ask()(
                    "GET", f"/repositories/lake/refs/{self._branch}/objects/stat", query={"path": path}
                )
            except (OSError, http.client.HTTPException):
                time.sleep(0.05)
                continue
            if status in (200, 404):
                return str(stat["checksum"]) if status == 200 else None
            time.sleep(0.05)
        raise AssertionError(f"the server did not come back in {_PATIENCE_SECONDS:.0f} s")


def is_dead(process: psutil.Process) -> bool:
    """Return whether a process is dead, or dies in a moment: its connections close before it has ended."""
    end = time.monotonic() + DYING_SECONDS
    while True:
        try:
            if not process.is_running() or process.status() == psutil.STATUS_ZOMBIE:
                return True
        except psutil.NoSuchProcess:
            return True
        if time.monotonic() > end:
            return False
        time.sleep(0.01)


def checksums(ask: Http, ref: str, *, read: bool = False) -> dict[str, str]:
    """Return the checksum of every path of a ref; with `read`, that its bytes are those too."""
    found: dict[str, str] = {}
    after = ""
    while True:
        status, page = ask(
            "GET", f"/repositories/lake/refs/{ref}/objects/ls", query={"amount": "1000", "after": after}
        )
        assert status == 200, page
        found |= {each["path"]: each["checksum"] for each in page["results"]}
        if not page["pagination"]["has_more"]:
            break
        after = page["pagination"]["next_offset"]
    for path, checksum in found.items() if read else ():
        status, data, _ = ask.whole(
            "GET", f"/api/v1/repositories/lake/refs/{ref}/objects", query={"path": path}
        )
        assert (status, hashlib.md5(data).hexdigest()) == (200, checksum), f"{path}: {status} {data[:200]!r}"
    return found


def strike(site: Site, kind: str, chance: random.Random) -> None:
    """Kill one process, and wait until the server is whole again."""
    assert site.server is not None, "started"
    supervisor = psutil.Process(site.server.process.pid)
    if kind == "supervisor":
        children = supervisor.children(recursive=True)
        supervisor.send_signal(signal.SIGKILL)
        site.server.process.wait()
        _, alive = psutil.wait_procs(children, timeout=_PATIENCE_SECONDS)
        assert not alive, f"processes outlive their supervisor: {alive}"
        site.start()
        return
    victims = _of_kind(supervisor, kind)
    if victims:
        chance.choice(victims).send_signal(signal.SIGKILL)
    end = time.monotonic() + _PATIENCE_SECONDS
    while len(_of_kind(supervisor, "worker")) < 2 or not _of_kind(supervisor, "compactor"):
        assert time.monotonic() < end, f"a {kind} did not come back"
        time.sleep(0.05)


def _of_kind(supervisor: psutil.Process, kind: str) -> list[psutil.Process]:
    """Return workers (they accept connections) or compactors (they are as nice as can be) of a supervisor."""
    found = []
    for child in supervisor.children():
        try:
            if child.status() == psutil.STATUS_ZOMBIE or "spawn_main" not in " ".join(child.cmdline()):
                continue
            if (child.nice() >= 10) == (kind == "compactor"):
                found.append(child)
        except psutil.NoSuchProcess:
            continue
    return found


def run(folder: Path, kinds: Sequence[str], *, seed: int, seconds: float = 0.6) -> int:
    """Kill processes of these kinds, one after another; return how many writes and commits were acknowledged."""
    chance = random.Random(seed)
    site = Site(folder)
    try:
        site.start()
        ask = site.ask()
        body = {"name": "lake", "storage_namespace": "local://lake"}
        assert ask("POST", "/repositories", body=body)[0] == 201
        body = {"name": "dev", "source": "main"}
        assert ask("POST", "/repositories/lake/branches", body=body)[0] == 201
        site.running.set()
        with ThreadPoolExecutor(CLIENTS) as threads:
            site.clients = [
                threads.submit(Client(site, f"c{n}", BRANCHES[n % 2], f"{seed}-{n}").work)
                for n in range(CLIENTS)
            ]
            try:
                for kind in kinds:
                    time.sleep(chance.random() * 2 * seconds)
                    strike(site, kind, chance)
                    with site.paused():
                        try:
                            site.check(restarted=kind == "supervisor")
                        except AssertionError as error:
                            error.add_note("without an answer: " + "; ".join(site.unanswered[-CLIENTS:]))
                            raise
            finally:
                site.stopped = True
                site.running.set()
        for client in site.clients:
            client.result()
        writes = sum(history.writes for history in site.histories.values())
        commits = sum(len(history.commits) for history in site.histories.values())
        print(
            f"acknowledged {writes} writes, {commits} commits; answers {dict(site.answers)}, "
            f"{len(site.unanswered)} unanswered, each by a process that was killed"
        )
        return writes + commits
    finally:
        site.stack.close()


def main() -> int:
    """Do it, and say how it went."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--times", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="lakebed-kills-", dir=arguments.folder) as folder:
        started = time.monotonic()
        chance = random.Random(arguments.seed)
        kinds = chance.choices(list(VICTIMS), list(VICTIMS.values()), k=arguments.times)
        run(Path(folder), kinds, seed=arguments.seed)
        print(f"{dict(Counter(kinds))} killed in {time.monotonic() - started:.0f} s:")
        print("nothing lost, nothing resurrected, nothing left in tmp/")
    return 0


if __name__ == "__main__":
    sys.exit(main())
