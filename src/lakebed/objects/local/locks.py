"""Locks between the processes (and threads) that share a root.

Bytes of one lock file stand for things: a byte for every key (by its CRC, so
two keys may share one: they wait for each other, no more), a few with names,
and one for every journal file. The kernel frees a lock when its holder dies.

They are open-file-description locks: each holder uses a descriptor of its own,
so two threads, or two stores in one process, exclude each other too.

Deadlock: whoever holds several takes them in rising order, keys before names
before journal files.
"""

import fcntl
import os
import struct
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Final

_FLOCK: Final = struct.Struct("hhqqi")
_KEY_BYTES: Final = 2**32
LOCKS: Final = "locks"
"""The lock file's name in the state folder."""
# Descriptors kept for the next holder; a busy moment may need more, which are then closed.
_FREE_MAX: Final = 4

OPENING: Final = _KEY_BYTES
"""Held while a root is opened: journals of a former boot are replayed by one process."""
USERS: Final = _KEY_BYTES + 1
"""Held shared by every open store."""
CHECKPOINT: Final = _KEY_BYTES + 2
"""Held by the one that removes old journal files."""
APPEND: Final = _KEY_BYTES + 3
"""Held while frames are written."""
_GENERATIONS: Final = _KEY_BYTES + 16


def key_lock(key: str) -> int:
    """Return the byte that stands for `key`."""
    return zlib.crc32(key.encode())


def generation_lock(generation: int) -> int:
    """Return the byte of a journal file; held shared from append until the files are there."""
    return _GENERATIONS + generation


class Held:
    """A lock that is held until `close`, or until nobody knows of it any more."""

    __slots__ = ("fd",)

    def __init__(self, fd: int) -> None:
        self.fd = fd

    def close(self) -> None:
        """Let go."""
        if self.fd >= 0:
            os.close(self.fd)
        self.fd = -1

    def __del__(self) -> None:
        self.close()


class Locks:
    """The lock file of a root."""

    def __init__(self, folder: int) -> None:
        self._folder = folder
        self._free: list[int] = []

    @contextmanager
    def hold(self, offsets: Iterable[int], *, shared: bool = False) -> Iterator[int]:
        """Hold the bytes at `offsets`, and yield the descriptor that does. Blocks: for worker threads only."""
        descriptor = self._take()
        kind = fcntl.F_RDLCK if shared else fcntl.F_WRLCK
        try:
            for offset in sorted(set(offsets)):
                fcntl.fcntl(descriptor, fcntl.F_OFD_SETLKW, _flock(kind, offset, 1))
            yield descriptor
        finally:
            fcntl.fcntl(descriptor, fcntl.F_OFD_SETLKW, _flock(fcntl.F_UNLCK, 0, 0))
            self._give_back(descriptor)

    def keep(self, offset: int) -> Held:
        """Share the byte."""
        descriptor = self._take()
        fcntl.fcntl(descriptor, fcntl.F_OFD_SETLKW, _flock(fcntl.F_RDLCK, offset, 1))
        return Held(descriptor)

    def try_keep(self, offset: int) -> Held | None:
        """Like `keep`, for one holder alone; None if anyone else has the byte."""
        descriptor = self._take()
        try:
            fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, _flock(fcntl.F_WRLCK, offset, 1))
        except BlockingIOError:
            self._give_back(descriptor)
            return None
        return Held(descriptor)

    def is_current(self, held: int) -> bool:
        """Return whether the file of a descriptor is still the root's lock file: the root may have been removed."""
        try:
            named = os.stat(LOCKS, dir_fd=self._folder, follow_symlinks=False)
        except FileNotFoundError:
            return False
        own = os.fstat(held)
        return (named.st_dev, named.st_ino) == (own.st_dev, own.st_ino)

    def close(self) -> None:
        """Close the descriptors that nobody holds."""
        while self._free:
            os.close(self._free.pop())

    def __del__(self) -> None:
        self.close()

    def _take(self) -> int:
        # `list.pop` is atomic: no lock around the locks.
        try:
            return self._free.pop()
        except IndexError:
            flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
            return os.open(LOCKS, flags, 0o600, dir_fd=self._folder)

    def _give_back(self, descriptor: int) -> None:
        if len(self._free) < _FREE_MAX:
            self._free.append(descriptor)
        else:
            os.close(descriptor)


def _flock(kind: int, start: int, length: int) -> bytes:
    return _FLOCK.pack(kind, os.SEEK_SET, start, length, 0)
