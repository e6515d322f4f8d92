"""`AnonymousPeak`: how much memory of their own a process and its children take while something runs.

Only anonymous memory counts: files that are mapped or cached are there for everybody, and go when they must.
"""

import threading
from pathlib import Path
from typing import Final, Self

import psutil

_EVERY_SECONDS: Final = 0.05


class AnonymousPeak:
    """`with AnonymousPeak(pid) as memory: …`, then `memory.grown_mib`."""

    def __init__(self, pid: int) -> None:
        self._root = psutil.Process(pid)
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="bench-memory")
        self._first = 0
        self._most = 0

    def __enter__(self) -> Self:
        self._first = self._most = self._now()
        self._thread.start()
        return self

    def __exit__(self, *_exc: object) -> None:
        self._done.set()
        self._thread.join()

    @property
    def grown_mib(self) -> float:
        return (self._most - self._first) / 2**20

    def _watch(self) -> None:
        while not self._done.wait(_EVERY_SECONDS):
            self._most = max(self._most, self._now())

    def _now(self) -> int:
        try:
            processes = (self._root, *self._root.children(recursive=True))
        except psutil.NoSuchProcess:
            return 0
        return sum(_anonymous_bytes(process.pid) for process in processes)


def _anonymous_bytes(pid: int) -> int:
    """Return what a process has now; one that is ending has nothing."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("RssAnon:")), 0)
