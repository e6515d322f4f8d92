"""Resources of a real server: after hundreds of repositories they are where they were, and its files are its own."""

import asyncio
import stat
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from lakebed.client.client import Client
from lakebed.env.clock import SystemClock, after
from lakebed.limits import GRACE_SECONDS, LATE_UPLOAD_SECONDS, MIB
from lakebed.objects.settings import StoreSettings
from lakebed.server.config import Config
from lakebed.server.installation import open_installation
from lakebed.testing.server_process import ServerProcess, running_server

REPOSITORIES = 300
AT_ONCE = 8
# A worker under load keeps a few more connections, arenas and caches than before. A store that is not closed costs at least
# 11 descriptors, so 300 of them cannot hide here.
DESCRIPTORS_MORE_MAX = 24
# Pools of threads fill as they are needed.
THREADS_MORE_MAX = 8
RSS_MORE_MAX = 32 * MIB


@dataclass(frozen=True, slots=True)
class Used:
    """What the processes of a server use."""

    descriptors: int
    threads: int
    rss_bytes: int


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    with running_server(
        tmp_path, descriptors=256, environment={"LAKEBED_STORAGE_LOCAL_FSYNC": "false"}
    ) as running:
        yield running


def test_hundreds_of_repositories_leave_no_resource_in_use(server: ServerProcess, tmp_path: Path) -> None:
    lake = Client(
        endpoint=server.endpoint, access_key_id=server.access_key, secret_access_key=server.secret_key
    )
    _live(lake, range(AT_ONCE * 8))
    before = _used(server)
    files_before = _files(tmp_path / "data")

    _live(lake, range(1000, 1000 + REPOSITORIES))

    deadline = time.monotonic() + 60
    while (after_all := _used(server)).descriptors > before.descriptors + DESCRIPTORS_MORE_MAX:
        assert time.monotonic() < deadline, f"descriptors stay open: {before} became {after_all}"
        time.sleep(0.1)
    assert after_all.threads <= before.threads + THREADS_MORE_MAX, f"{before} became {after_all}"
    assert after_all.rss_bytes <= before.rss_bytes + RSS_MORE_MAX, f"{before} became {after_all}"
    lake.repo("last").create("local://last")
    lake.close()
    server.process.terminate()
    assert server.process.wait(30) == 0
    asyncio.run(_clean(tmp_path / "data"))
    left = {path for path in _files(tmp_path / "data") - files_before if not path.startswith("objects/last")}
    assert not left, sorted(left)[:20]


def test_every_file_of_a_used_data_folder_is_for_its_account_alone(
    server: ServerProcess, tmp_path: Path
) -> None:
    lake = Client(
        endpoint=server.endpoint, access_key_id=server.access_key, secret_access_key=server.secret_key
    )
    repo = lake.repo("lake")
    repo.create("local://lake")
    repo.branch("main").write("large", b"x" * MIB)
    repo.branch("main").commit("one")
    assert repo.branch("main").read("large") == b"x" * MIB
    lake.close()

    wrong = {
        str(path): oct(mode)
        for path in [tmp_path / "data", *(tmp_path / "data").rglob("*")]
        if (mode := stat.S_IMODE(path.lstat().st_mode)) & 0o077
    }

    assert wrong == {}
    assert sum(1 for path in (tmp_path / "data").rglob("*") if path.is_file()) > 10


def _live(lake: Client, numbers: range) -> None:
    """Let repositories be created, written to, read and deleted with their data, several at a time."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for _ in pool.map(lambda number: _one_life(lake, f"repo-{number}"), numbers):
            pass


def _one_life(lake: Client, name: str) -> None:
    repo = lake.repo(name)
    repo.create(f"local://{name}")
    branch = repo.branch("main")
    branch.write("a", name.encode())
    assert branch.read("a") == name.encode()
    repo.delete(with_data=True)


def _used(server: ServerProcess) -> Used:
    """Return what the worker, the compactor and their supervisor use."""
    processes = [server.process.pid, *_children(server.process.pid)]
    status = [dict(_lines(Path(f"/proc/{pid}/status"))) for pid in processes]
    return Used(
        sum(len(list(Path(f"/proc/{pid}/fd").iterdir())) for pid in processes),
        sum(int(each["Threads"]) for each in status),
        sum(int(each["VmRSS"].split()[0]) * 1024 for each in status),
    )


def _children(pid: int) -> list[int]:
    return [int(text) for text in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _lines(file: Path) -> Iterator[tuple[str, str]]:
    for line in file.read_text().splitlines():
        name, _, value = line.partition(":")
        yield name, value.strip()


def _files(data: Path) -> set[str]:
    """Return what lies in a data folder, but for the numbers of metrics, which each process has files of."""
    found = {str(path.relative_to(data)) for path in data.rglob("*")}
    return {path for path in found if not path.startswith("tmp/metrics")}


async def _clean(data: Path) -> None:
    """Do what the server's cleaner does after the grace period, and a day later."""
    async with open_installation(Config(data=data, storage=StoreSettings(fsync=False))) as wired:
        later = after(SystemClock().now(), GRACE_SECONDS + 60)
        cleaned = await wired.cleaner.clean_once(later)
        assert cleaned.repositories >= REPOSITORIES
        await wired.cleaner.clean_once(after(later, LATE_UPLOAD_SECONDS))
