"""An installation with layers that wait to be merged, compactors of its own, and what must be so at the end."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import msgspec
import psutil
from prometheus_client import CollectorRegistry

from lakebed.compaction.limits import CompactionLimits
from lakebed.compaction.meters import CompactionMeters
from lakebed.compaction.worker import CompactionWorker
from lakebed.env.clock import SystemClock, after
from lakebed.env.ids import SystemIds
from lakebed.kv.drivers.lmdb import LmdbKV
from lakebed.model.ids import BranchName, parse_path
from lakebed.model.layers import SegmentLayer
from lakebed.model.repository import Repository
from lakebed.model.segments import SEGMENTS_FOLDER, segment_key
from lakebed.server.config import Config
from lakebed.server.installation import open_installation
from lakebed.server.wiring import Wired
from lakebed.staging.record import seal, tokens_of
from lakebed.testing.lake import COMMIT
from lakebed.testing.server_process import ServerProcess
from lakebed.versioning.findings import Finding
from lakebed.versioning.verify import Verifier
from tests.server.http import PATIENCE_SECONDS, Http

REPO = "/repositories/shop"
MAIN = f"{REPO}/branches/main"
# Short enough for a test to wait for, long enough for heartbeats on a busy machine.
LEASE_SECONDS = 4
_LONG_AFTER = 3 * 24 * 3600.0
# Between two looks at a compactor: processor time, which is counted in hundredths, or time without any.
_LOOK_SECONDS, _IDLE_SECONDS = 0.02, 0.5
_PUT, _DELETED, _SMALL = 40_000, 20_000, 1_000

Job = dict[str, Any]


@dataclass
class Model:
    """What a reader must see: the paths of each branch."""

    paths: dict[str, set[str]] = field(default_factory=dict)

    def write(self, http: Http, *paths: str) -> None:
        """Upload objects to `main`, one request each; what is acknowledged counts."""
        for path in paths:
            assert http("POST", f"{MAIN}/objects", query={"path": path}, body=b"live")[0] == 201
            self.paths["main"].add(path)

    def delete(self, http: Http, *paths: str) -> None:
        """Delete from `main`, as many at a time as a request may name."""
        for at in range(0, len(paths), 1000):
            some = paths[at : at + 1000]
            status, answer = http("POST", f"{MAIN}/objects/delete", body={"paths": list(some)})
            assert (status, answer["errors"]) == (200, [])
            self.paths["main"].difference_update(some)


@dataclass(frozen=True)
class Backlog:
    """A folder for a server, and what it shows."""

    folder: Path
    model: Model
    kv_url: str | None = None

    @property
    def config(self) -> Config:
        limits = CompactionLimits(lease_seconds=float(LEASE_SECONDS))
        return Config(data=self.folder / "data", kv_url=self.kv_url, compaction_limits=limits)

    @property
    def environment(self) -> dict[str, str]:
        """What its processes are told."""
        told = {"LAKEBED_COMPACTOR_LEASE_SECONDS": str(LEASE_SECONDS), "LAKEBED_COMPACTOR_JOBS": "1"}
        return {**told, "LAKEBED_DATABASE": self.kv_url} if self.kv_url else told

    def copied_to(self, folder: Path) -> "Backlog":
        """Return the same in another folder, for a test to spoil."""
        shutil.copytree(self.folder, folder, dirs_exist_ok=True)
        model = Model({branch: set(paths) for branch, paths in self.model.paths.items()})
        return replace(self, folder=folder, model=model)


async def make_backlog(
    folder: Path, *, kv_url: str | None = None, sides: Sequence[str] = ("side",)
) -> Backlog:
    """Stage three large layers on `main`, one of them with deletes, and nine small ones on each branch of `sides`."""
    backlog = Backlog(folder, Model(), kv_url)
    async with open_installation(backlog.config) as wired:
        repo = await wired.catalog.repositories.create("shop", "local://shop")
        await wired.catalog.objects.upload("shop", "main", "first", b"live")
        await wired.catalog.commits.commit("shop", "main", COMMIT)
        old, new = ([f"{folder}/{n:06}" for n in range(_PUT)] for folder in ("old", "new"))
        await _stage(wired, repo, "main", old)
        deleted = [f"{'old' if n % 2 else 'never'}/{n:06}" for n in range(_DELETED)]
        for at in range(0, _DELETED, 1000):
            await wired.catalog.objects.delete("shop", "main", deleted[at : at + 1000])
        await _seal(wired, repo, "main")
        await _stage(wired, repo, "main", new)
        small = [[f"small/{layer}/{n:04}" for n in range(_SMALL)] for layer in range(9)]
        for side in sides:
            await wired.catalog.branches.create("shop", side, "main")
            for paths in small:
                await _stage(wired, repo, side, paths)
    backlog.model.paths["main"] = {"first", *old, *new} - set(deleted)
    for side in sides:
        backlog.model.paths[side] = {"first", *(path for paths in small for path in paths)}
    return backlog


async def _stage(wired: Wired, repo: Repository, branch: str, paths: Sequence[str]) -> None:
    like = await wired.catalog.objects.stat("shop", "main", "first")
    for at in range(0, len(paths), 1000):
        entries = [msgspec.structs.replace(like, path=parse_path(path)) for path in paths[at : at + 1000]]
        await wired.engine.parts.staging.write(repo, BranchName(branch), entries)
    await _seal(wired, repo, branch)


async def _seal(wired: Wired, repo: Repository, branch: str) -> None:
    await wired.engine.parts.branches.update(
        repo,
        BranchName(branch),
        lambda current, _now: seal(current),
        landed=lambda current: current.staging_token is None,
    )


@contextmanager
def compactor(
    backlog: Backlog, name: str = "compactor", *, within: Sequence[str] = ()
) -> Iterator["subprocess.Popen[bytes]"]:
    """Run `lakebed compactor` beside what holds the folder; `within` is a command that runs commands."""
    command = [str(Path(sys.executable).parent / "lakebed"), "compactor", "--data", str(backlog.config.data)]
    with log_of(backlog, name).open("ab") as log:
        process = subprocess.Popen(
            [*within, *command],
            env={**os.environ, **backlog.environment},  # noqa: TID251  the child inherits what the test run has
            stderr=log,
        )
        try:
            yield process
        finally:
            process.send_signal(signal.SIGCONT)
            process.kill()
            process.wait()


def log_of(backlog: Backlog, name: str) -> Path:
    """Return where a compactor says what it does."""
    return backlog.folder / f"{name}.log"


def ended(backlog: Backlog, name: str, *, token: int | None = None) -> list[str]:
    """Return the lines that a compactor wrote about jobs that ended, about one attempt if asked."""
    lines = log_of(backlog, name).read_text().splitlines()
    ends = [line for line in lines if "compacted" in line or "compaction_ended" in line]
    return ends if token is None else [line for line in ends if f"token={token} " in f"{line} "]


def wait_until(is_so: Callable[[], Any], what: str) -> Any:
    """Return what is so, once it is."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        if found := is_so():
            return found
        time.sleep(0.02)
    raise AssertionError(f"never so: {what}")


def compactor_of(server: ServerProcess) -> psutil.Process:
    """Wait until the server has a compactor at low priority, and return it."""

    def found() -> psutil.Process | None:
        return next(filter(_is_compactor, psutil.Process(server.process.pid).children()), None)

    process: psutil.Process = wait_until(found, "a compactor beside the workers")
    return process


def _is_compactor(child: psutil.Process) -> bool:
    try:
        return child.status() != psutil.STATUS_ZOMBIE and child.nice() > 0
    except psutil.NoSuchProcess:
        return False


def jobs(http: Http) -> list[Job]:
    """Return the jobs of the repository."""
    status, found = http("GET", f"{REPO}/compaction")
    assert status == 200
    return list(found["jobs"])


def running_l2(http: Http) -> Job | None:
    """Return the job that merges into a tree, if somebody is at it."""
    found = (job for job in jobs(http) if (job["kind"], job["state"]) == ("l2", "running"))
    return next(found, None)


def is_drained(http: Http) -> bool:
    """Return whether everything worth it was merged."""
    _, main = http("GET", f"{MAIN}/compaction")
    _, found = http("GET", f"{REPO}/compaction")
    layers = [each["sealed_layers"] for each in found["branches"]]
    return (
        not found["jobs"] and main["sealed_layers"] == 0 and main["compacted"] and max(layers, default=0) <= 1
    )


def frozen_at_work(http: Http, pid: int) -> Job:
    """Stop a process in the middle of a job, but while it holds no lock that uploads need, and return the job.

    Processes that share an embedded database and a folder take turns at writing. One that is stopped keeps its turn.
    """

    process = psutil.Process(pid)

    def caught() -> Job | None:
        # A job takes more processor time than there is between two looks: none begins and ends unseen.
        _run_a_while(process)
        found = running_l2(http)
        return found if found is not None and _can_write(http) else None

    job: Job = wait_until(caught, "a compactor at work")
    return job


def _run_a_while(process: psutil.Process) -> None:
    """Let a process go on until it has used some processor time, or has waited for something else, and stop it."""
    used, deadline = _processor_seconds(process), time.monotonic() + _IDLE_SECONDS
    process.resume()
    while _processor_seconds(process) < used + _LOOK_SECONDS and time.monotonic() < deadline:
        time.sleep(0.005)
    process.suspend()


def _processor_seconds(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def _can_write(http: Http) -> bool:
    connection = HTTPConnection(http.host, timeout=3)
    headers = {"Authorization": http.authorization}
    try:
        # An object that is there already: the upload takes every lock, and changes no path.
        connection.request("POST", f"/api/v1{MAIN}/objects?path=first", b"live", headers)
        status = connection.getresponse().status
        assert status == HTTPStatus.CREATED, status
        return True
    except TimeoutError:
        return False
    finally:
        connection.close()


def listed(server: ServerProcess, branch: str) -> set[str]:
    """Return every path that the server lists."""
    http, after_path, found = Http(server), "", set[str]()
    while True:
        query = {"amount": "1000", "after": after_path}
        _, page = http("GET", f"{REPO}/refs/{branch}/objects/ls", query=query)
        found |= {each["path"] for each in page["results"]}
        if not page["pagination"]["has_more"]:
            return found
        after_path = page["pagination"]["next_offset"]


async def check(backlog: Backlog) -> None:
    """Everything acknowledged is there and nothing else; when all is merged and long ago, nothing is left over."""
    async with open_installation(backlog.config) as wired:
        repo = await wired.catalog.repositories.get("shop")
        for branch, paths in backlog.model.paths.items():
            assert await _shown(wired, branch) == paths
        for name in backlog.model.paths:
            await wired.engine.compaction.ask(repo, BranchName(name))
        await _drain(wired, repo)
        for branch, paths in backlog.model.paths.items():
            assert await _shown(wired, branch) == paths
        later = after(await wired.engine.parts.kv.now(), _LONG_AFTER)
        for _ in range(2):
            assert (await wired.cleaner.clean_once(later)).failed == 0
        await _check_nothing_left(wired, repo)
        findings: list[Finding] = []
        verifier = Verifier(
            kv=wired.engine.parts.kv,
            pins=wired.engine.parts.pins,
            repo=repo,
            store=await wired.engine.store_of(repo),
            external=wired.engine.external,
            workers=wired.engine.parts.workers,
            temp=backlog.config.data / "tmp",
            report=findings.append,
        )
        await verifier.run()
        assert findings == []


async def _drain(wired: Wired, repo: Repository) -> None:
    """Merge until nothing is left to do."""
    service = wired.engine.compaction
    worker = CompactionWorker(
        service,
        wired.job_runner,
        places=1,
        clock=SystemClock(),
        ids=SystemIds(),
        meters=CompactionMeters(CollectorRegistry()),
    )
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        await worker.round()
        await worker.idle()
        await worker.round()
        if not (await service.jobs.read(repo)).value.jobs:
            # What is left of the last attempts goes with the next poll.
            await worker.round()
            return
        assert time.monotonic() < deadline, "jobs that never end"
        await SystemClock().sleep(0.1)


async def _shown(wired: Wired, branch: str) -> set[str]:
    found, after_path = set[str](), ""
    while True:
        page = await wired.catalog.objects.list("shop", branch, after=after_path, amount=1000)
        found |= set(page.rows.column("key").to_pylist())
        if not page.has_more:
            return found
        after_path = page.last


async def _check_nothing_left(wired: Wired, repo: Repository) -> None:
    """No token, segment, slot or heartbeat is there that no record names."""
    kv = wired.engine.parts.kv
    branches = await wired.engine.parts.branches.list_by_commit(repo)
    assert all(branch.l2_slot is None and branch.fold_slot is None for branch in branches)
    assert await wired.engine.compaction.jobs.heartbeats(repo) == {}
    if isinstance(kv, LmdbKV):
        tokens = {name for name in kv.environment.partitions() if name.startswith("shop-") and ":" in name}
        assert tokens - {token for branch in branches for token in tokens_of(branch)} == set()
    segments = {layer.id for branch in branches for layer in branch.sealed if isinstance(layer, SegmentLayer)}
    store = await wired.engine.store_of(repo)
    stored = {info.key async for infos in store.list(SEGMENTS_FOLDER) for info in infos}
    assert stored == set(map(segment_key, segments))
