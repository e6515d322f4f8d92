"""One sync for many small changes: the journal of a root, shared by its processes.

Files `journal/<generation>` are appended to by everyone, one at a time, so the
order of frames is the order of changes of every key (each is made under the
key's lock). A frame is synced before its change is made to the files, and the
files themselves are not synced at all. They are made safe together, later:

    1. rotate      start generation n + 1; nobody appends to n any more
    2. wait        until everyone who appended to n has changed the files
    3. checkpoint  sync the whole file system
    4. remove      generation n, oldest first, and sync that

Crash after 1 or 2: both generations are replayed. After 3: replaying n again
changes nothing, since n + 1 is replayed too. 4 before 3 would lose objects; out
of order, an old frame could come back without the newer one that overruled it.

Only a power cut can lose what was written to files, so only generations of a
former boot are replayed (see `opening`). After a mere crash the files are as
they were left, and replaying would bring back what was never acknowledged.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import Final, Protocol

from lakebed.env.ids import IdSource
from lakebed.limits import JOURNAL_BYTES_MAX
from lakebed.objects.local.disk import Disk, Sync
from lakebed.objects.local.faults import UnsureError
from lakebed.objects.local.folders import Folder
from lakebed.objects.local.frames import (
    FILE_HEADER_BYTES,
    Frame,
    Header,
    decode_frames,
    decode_header,
    encode_frame,
    encode_header,
)
from lakebed.objects.local.locks import APPEND, CHECKPOINT, Locks, generation_lock

_OPEN_FLAGS: Final = os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC


class Recorder(Protocol):
    """What the files need of a journal."""

    syncs: bool
    """Whether `record` waits for the disk."""

    def record(self, frames: Sequence[Frame]) -> AbstractContextManager[None]:
        """Make `frames` safe, then let the caller change the files.

        The caller holds the locks of the keys. Until it is done, the frames
        cannot be removed.

        Raises:
            UnsureError: the frames may or may not be safe.
            OSError: nothing was recorded.
        """
        ...

    def is_full(self) -> bool:
        """Return whether it is time to `rotate`."""
        ...

    def rotate(self) -> None:
        """Make the files of all earlier frames safe and forget the frames. Takes as long as the disk takes."""
        ...


class NoJournal:
    """For a root that is never synced."""

    syncs = False

    def record(self, frames: Sequence[Frame]) -> AbstractContextManager[None]:  # noqa: ARG002  the port's shape
        return nullcontext()

    def is_full(self) -> bool:
        return False

    def rotate(self) -> None:
        return None


class Generation:
    """One open journal file."""

    __slots__ = ("fd", "header", "number")

    def __init__(self, number: int, fd: int, header: Header) -> None:
        self.number = number
        self.fd = fd
        self.header = header

    def __del__(self) -> None:
        os.close(self.fd)

    def size_bytes(self) -> int:
        return os.fstat(self.fd).st_size


class Journal:
    """A `Recorder` on disk. Thread-safe."""

    syncs = True

    def __init__(
        self, folder: Folder, *, disk: Disk, locks: Locks, ids: IdSource, bytes_max: int = JOURNAL_BYTES_MAX
    ) -> None:
        self._folder = folder
        self._disk = disk
        self._locks = locks
        self._ids = ids
        self._bytes_max = bytes_max
        self._current: Generation | None = None
        self._spoilt = 0

    @contextmanager
    def record(self, frames: Sequence[Frame]) -> Iterator[None]:
        with ExitStack() as until_applied:
            with self._locks.hold([APPEND]):
                generation = self._newest()
                until_applied.enter_context(
                    self._locks.hold([generation_lock(generation.number)], shared=True)
                )
                self._append(generation, frames)
            self._sync(generation)
            yield

    def is_full(self) -> bool:
        current = self._current
        return current is not None and current.size_bytes() >= self._bytes_max

    def rotate(self) -> None:
        held = self._locks.try_keep(CHECKPOINT)
        if held is None:
            return  # Another process is at it, and what it syncs covers our files too.
        try:
            self._rotate()
        finally:
            held.close()

    def generations(self) -> list[int]:
        """Return the numbers of the files that are there, oldest first."""
        return sorted(int(name, 16) for name in self._folder.names())

    def read(self, number: int) -> tuple[Header, Iterator[Frame]] | None:
        """Return what a generation holds, or None if it was never finished."""
        with os.fdopen(os.open(_name(number), _OPEN_FLAGS, dir_fd=self._folder.fd), "rb") as file:
            data = file.read()
        header = decode_header(data)
        return None if header is None else (header, decode_frames(data, header.nonce))

    def start(self, number: int) -> Generation:
        """Begin a generation. The caller holds `APPEND`: no reader sees the file without its header."""
        header = Header(self._ids.token()[:8].encode(), self._disk.boot_id())
        generation = Generation(number, self._disk.create(self._folder.fd, _name(number)), header)
        self._disk.write(generation.fd, encode_header(header))
        # The header is synced with the first frame: until then the file is no promise.
        self._disk.sync(self._folder.fd, Sync.JOURNAL_ENTRY)
        self._current = generation
        return generation

    def checkpoint(self, numbers: Sequence[int]) -> None:
        """Remove generations, oldest first, once all their files are safe."""
        for number in numbers:
            with self._locks.hold([generation_lock(number)]):
                pass  # Whoever appended to it has changed the files.
        self._disk.sync_all(self._folder.fd, Sync.CHECKPOINT)
        for number in numbers:
            self._disk.unlink(self._folder.fd, _name(number))
            self._disk.sync(self._folder.fd, Sync.JOURNAL_REMOVAL)

    def _rotate(self) -> None:
        with self._locks.hold([APPEND]):
            newest = self._newest()
            if newest.size_bytes() > FILE_HEADER_BYTES:
                newest = self.start(newest.number + 1)
        sealed = [number for number in self.generations() if number < newest.number]
        if sealed:
            self.checkpoint(sealed)

    def _newest(self) -> Generation:
        """Return the generation to append to. The caller holds `APPEND`."""
        current = self._current
        if current is not None and current.number <= self._spoilt:
            return self.start(self._last_number() + 1)
        if current is None or os.fstat(current.fd).st_nlink == 0 or self._exists(current.number + 1):
            number = self._last_number()
            if not self._exists(number):
                return self.start(number + 1)
            fd = os.open(_name(number), _OPEN_FLAGS, dir_fd=self._folder.fd)
            header = decode_header(os.pread(fd, FILE_HEADER_BYTES, 0))
            if header is None:  # Whoever began it was killed at that moment.
                os.close(fd)
                return self.start(number + 1)
            current = self._current = Generation(number, fd, header)
        return current

    def _last_number(self) -> int:
        """Return the highest number in use: of a file that is there, or of the one that was written to last."""
        return max([0 if self._current is None else self._current.number, *self.generations()])

    def _exists(self, number: int) -> bool:
        try:
            os.stat(_name(number), dir_fd=self._folder.fd)
        except FileNotFoundError:
            return False
        return True

    def _append(self, generation: Generation, frames: Sequence[Frame]) -> None:
        size_bytes = generation.size_bytes()
        data = b"".join([encode_frame(frame, generation.header.nonce) for frame in frames])
        try:
            self._disk.write(generation.fd, data)
        except OSError:
            self._cut_back(generation, size_bytes)
            raise

    def _cut_back(self, generation: Generation, size_bytes: int) -> None:
        """Take back what was written of a batch: the caller hears that nothing was."""
        try:
            self._disk.truncate(generation.fd, size_bytes)
        except OSError as error:
            self._spoilt = generation.number
            raise UnsureError(error.errno, error.strerror) from error

    def _sync(self, generation: Generation) -> None:
        try:
            self._disk.sync(generation.fd, Sync.JOURNAL_DATA)
        except OSError as error:
            # The kernel forgets pages that it failed to write, and a second sync of the file would lie.
            self._spoilt = generation.number
            raise UnsureError(error.errno, error.strerror) from error


def _name(number: int) -> str:
    return f"{number:016x}"
