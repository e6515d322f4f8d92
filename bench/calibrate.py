"""What this machine does at this moment without any of our code. Look here first when two runs differ."""

import asyncio
import hashlib
import os
import tempfile
import time

from bench.clock import Stopwatch
from bench.figure import Figure, peer
from bench.lab import Lab

_MIB = 1024 * 1024


async def calibrate(lab: Lab) -> list[Figure]:
    """Measure one core, the disk under the work folder, and the event loop."""
    return [
        Figure(name="sha256, one core", value=_sha256(), unit="MiB/s", peer=peer(1_708)),
        Figure(name="4 KiB write + fsync", value=_fsync(lab), unit="/s", peer=peer(4_400)),
        Figure(name="turns of an empty event loop", value=await _turns(), unit="/s"),
        Figure(
            name="short Python loop",
            value=_python(),
            unit="/s",
            note="100 dictionary writes and reads each; nothing but the interpreter",
        ),
    ]


def _sha256() -> float:
    data = bytes(_MIB)
    with Stopwatch() as watch:
        for _ in range(400):
            hashlib.sha256(data).digest()
    return 400 / watch.seconds


def _fsync(lab: Lab) -> float:
    with tempfile.NamedTemporaryFile(dir=lab.work) as file:
        started, count = time.perf_counter(), 0
        while time.perf_counter() - started < 2:
            file.write(b"x" * 4096)
            file.flush()
            os.fsync(file.fileno())
            count += 1
        return count / (time.perf_counter() - started)


async def _turns() -> float:
    with Stopwatch() as watch:
        for _ in range(100_000):
            await asyncio.sleep(0)
    return 100_000 / watch.seconds


def _python() -> float:
    with Stopwatch() as watch:
        for _ in range(20_000):
            found: dict[int, int] = {}
            for number in range(100):
                found[number] = found.get(number - 1, 0) + 1
    return 20_000 / watch.seconds
