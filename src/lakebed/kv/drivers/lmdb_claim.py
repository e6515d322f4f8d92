"""`Claim`: whose turn it is to write, between processes, as far as they are polite.

A file's lock can be asked for without waiting, which LMDB's cannot. The kernel frees it
when its holder dies.
"""

import fcntl
import os
from pathlib import Path
from types import TracebackType


class Claim:
    """The turn to write. One holder at a time in this process is the caller's business."""

    __slots__ = ("_fd", "_held")

    def __init__(self, file: Path) -> None:
        self._fd = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._held = False

    def try_take(self) -> bool:
        """Take the turn if it is free; return whether it was. Let go of it by `with`."""
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        self._held = True
        return True

    def close(self) -> None:
        """Close the file; again is no error."""
        if self._fd >= 0:
            os.close(self._fd)
        self._fd = -1

    def __enter__(self) -> None:
        if not self._held:
            fcntl.flock(self._fd, fcntl.LOCK_EX)
            self._held = True

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._held = False
        fcntl.flock(self._fd, fcntl.LOCK_UN)
