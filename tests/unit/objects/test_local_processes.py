"""Several processes on one folder, and what a killed one leaves."""

import subprocess
import sys
from pathlib import Path

import pytest

from lakebed.objects.drivers.local import LocalObjects
from lakebed.testing.object_suite import keys_of

WORKER = Path(__file__).with_name("folder_worker.py")


def start(*arguments: object) -> "subprocess.Popen[bytes]":
    command = [sys.executable, str(WORKER), *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE)


def finish(process: "subprocess.Popen[bytes]") -> list[str]:
    output, _ = process.communicate(timeout=120)
    assert process.returncode == 0
    return output.decode().splitlines()


async def test_of_many_processes_one_creates_each_key(tmp_path: Path) -> None:
    rounds = 15
    running = {mark: start("create", tmp_path / "root", mark, rounds) for mark in "ABC"}
    winners = {mark: finish(process) for mark, process in running.items()}

    store = LocalObjects(tmp_path / "root")
    keys = await keys_of(store)
    assert len(keys) == 5 * rounds
    assert sorted(key for won in winners.values() for key in won) == keys
    for mark, won in winners.items():
        for key in won:
            assert (await store.get(key))[:1] == mark.encode()
    await store.close()


async def test_no_increment_of_many_processes_is_lost(tmp_path: Path) -> None:
    store = LocalObjects(tmp_path / "root")
    await store.put("counter", b"0")

    for process in [start("increment", tmp_path / "root", 40) for _ in range(3)]:
        finish(process)

    assert await store.get("counter") == b"120"
    await store.close()


class Told:
    """What a writer has said so far."""

    def __init__(self) -> None:
        self.kept: dict[str, bytes] = {}
        self.doubtful: set[str] = set()

    def hear(self, line: bytes) -> None:
        if not line.endswith(b"\n"):
            return  # Cut short: it promises nothing.
        key, size = line[1:].decode().split()
        match line[:1]:
            case b"+":
                self.kept[key] = key.encode().ljust(int(size), b".")
            case b"?":
                self.doubtful.add(key)
                del self.kept[key]
            case _:
                self.doubtful.discard(key)


@pytest.mark.parametrize("lines", [1, 3, 10, 40, 77, 120])
async def test_what_a_killed_process_acknowledged_is_there(tmp_path: Path, lines: int) -> None:
    root = tmp_path / "root"
    told = Told()
    for number in range(2):  # The second one finds what the first one left.
        with start("write", root, number) as process:
            assert process.stdout is not None
            for _ in range(lines):
                told.hear(process.stdout.readline())
            process.kill()
            for line in process.stdout:
                told.hear(line)

    store = LocalObjects(root)
    found = {key: await store.get(key) for key in await keys_of(store)}
    assert {key: found.get(key) for key in told.kept} == told.kept
    # Besides, there is at most what was under way: whole, and one for each of the lanes.
    rest = found.keys() - told.kept.keys()
    assert all(found[key].rstrip(b".") == key.encode() for key in rest)
    assert len(rest) <= 8
    await store.put("and it goes on", b"1")
    await store.close()
    assert not (root / ".lakebed" / "scratch").exists()
