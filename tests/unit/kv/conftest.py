"""Fixtures named for the state they hold."""

import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from lakebed.kv.drivers.lmdb import LmdbKV


@pytest.fixture
async def lmdb_store(tmp_path: Path) -> AsyncIterator[LmdbKV]:
    store = LmdbKV(tmp_path / "kv")
    yield store
    await store.close()


@pytest.fixture
def spawn() -> Iterator[Callable[..., "subprocess.Popen[str]"]]:
    """Starts other processes on an environment; they end with the test."""
    children = []

    def start(action: str, folder: Path, name: str = "child") -> "subprocess.Popen[str]":
        script = Path(__file__).with_name("lmdb_child.py")
        child = subprocess.Popen(
            [sys.executable, script, action, folder, name], stdout=subprocess.PIPE, text=True
        )
        children.append(child)
        return child

    yield start
    for child in children:
        child.kill()
        child.wait()
        assert child.stdout is not None
        child.stdout.close()
