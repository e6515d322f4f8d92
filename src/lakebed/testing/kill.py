"""`Victim`: a process that says what it has acknowledged, line by line, until it is killed.

A test that wants to know what survives `kill -9` needs three things of the other
process: it is warm before the clock starts (a Python with Arrow takes a second to
come up), it is killed at no moment of its own choosing, and every line it got out
counts. Ours is an ordinary process, not a fork: Polars and Arrow start threads
when they are imported, and a fork would copy their locks.
"""

import os
import subprocess
import sys
from pathlib import Path
from typing import Self


class Victim:
    """A running script that waits for its order on stdin and reports on stdout."""

    def __init__(self, script: Path, *args: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(script), *args], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def begin(self, order: str) -> None:
        """Let it go: the script's `wait_for_order` returns `order`."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{order}\n".encode())
        self._process.stdin.close()

    def read(self) -> str | None:
        """Return the next line it says; None when it has ended."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        return line.decode().removesuffix("\n") if line.endswith(b"\n") else None

    def kill(self) -> list[str]:
        """Kill it, and return what it had said and nobody has read. Half a line was not said."""
        self._process.kill()
        rest = []
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        if not self._process.stdout.closed:
            while (line := self.read()) is not None:
                rest.append(line)
            self._process.stdout.close()
        self._process.stdin.close()
        self._process.wait()
        return rest

    def wait(self) -> int:
        """Return its exit code once it has ended by itself."""
        return self._process.wait()


def wait_for_order() -> str:
    """In the script: return what the parent ordered. Whoever goes without an order ends here."""
    line = sys.stdin.readline()
    if not line:
        sys.exit(0)
    return line.removesuffix("\n")


def say(line: str) -> None:
    """In the script: report a line. When this returns, the parent will read it, whatever happens to us."""
    os.write(1, f"{line}\n".encode())
