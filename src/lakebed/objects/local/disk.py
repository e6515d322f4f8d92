"""`Disk`: every call that changes what is on disk, and every sync, so that a test can cut the power.

Reads need no port: what a process wrote it can read, whatever reaches the
platter. `lakebed.testing.fake_disk` is the disk that forgets.
"""

import ctypes
import os
from enum import Enum
from pathlib import Path
from typing import Final, Protocol

from lakebed.errors import ErrorKind, InvalidInputError
from lakebed.limits import STREAM_CHUNK_BYTES

_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")
# For the server's account alone: who may read an object is for policies to say.
_FILE_MODE: Final = 0o600
_FOLDER_MODE: Final = 0o700
_SYNC_FILE_RANGE_WRITE: Final = 2
# From 0, and 0 bytes, which means to the end; a plain 0 would be passed as half of what the call takes.
_ALL: Final = ctypes.c_int64(0)


class Sync(Enum):
    """Every sync there is, by what is lost without it."""

    OBJECT_DATA = "the bytes of an object that did not go through the journal"
    OBJECT_ENTRY = "its name in its folder"
    FOLDER_ENTRY = "the names of the folders above it"
    ROOT_ENTRY = "the name of the store's own folder"
    STATE_ENTRY = "the names of the folders in which the journal lies"
    JOURNAL_DATA = "the frames of small objects, deletes and direct writes"
    JOURNAL_ENTRY = "the name of a new journal file"
    JOURNAL_REMOVAL = "that an old journal file is gone: it must not come back after a newer one"
    CHECKPOINT = "the files that only a journal kept safe, before that journal goes"
    PART_DATA = "the bytes of a part of an upload"
    PART_ENTRY = "the name of a part"
    UPLOAD_ENTRY = "the name of an upload's folder, and that of its key"


class Disk(Protocol):
    """Changes to files and folders. A folder or file is given by its descriptor; names have no slash.

    Nothing is safe from a power cut before the sync that covers it: neither
    bytes, nor a name, nor the absence of one. Errors are `OSError`.
    """

    def boot_id(self) -> str:
        """Return a text that changes whenever the machine starts: only then can unsynced writes be lost."""
        ...

    def create(self, folder: int, name: str) -> int:
        """Make an empty file that was not there and return its descriptor, for reading and writing."""
        ...

    def write(self, file: int, data: bytes | memoryview) -> None:
        """Append all of `data`."""
        ...

    def set_mtime(self, file: int, nanoseconds: int) -> None: ...

    def truncate(self, file: int, size_bytes: int) -> None: ...

    def rename(self, source: int, name: str, target: int, new_name: str) -> None:
        """Move a file, replacing the file at the target."""
        ...

    def unlink(self, folder: int, name: str) -> None: ...

    def make_folder(self, folder: int, name: str) -> None: ...

    def remove_folder(self, folder: int, name: str) -> None: ...

    def sync(self, descriptor: int, what: Sync) -> None:
        """Return when the bytes of the file, or the names in the folder, are safe."""
        ...

    def sync_all(self, descriptor: int, what: Sync) -> None:
        """Return when everything done before in the file system of `descriptor` is safe."""
        ...


class RealDisk:
    """The machine's disk."""

    _begins_early = True

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)

    def boot_id(self) -> str:
        try:
            return _BOOT_ID.read_text(encoding="ascii").strip()
        except OSError as error:
            raise InvalidInputError(
                ErrorKind.UNSUPPORTED,
                f"local:// storage needs Linux with /proc ({_BOOT_ID} cannot be read): use s3:// here",
            ) from error

    def create(self, folder: int, name: str) -> int:
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_APPEND
        return os.open(name, flags, _FILE_MODE, dir_fd=folder)

    def write(self, file: int, data: bytes | memoryview) -> None:
        size_bytes = len(data)
        written = os.write(file, data)
        while written < len(data):
            data = memoryview(data)[written:]
            written = os.write(file, data)
        if size_bytes >= STREAM_CHUNK_BYTES and self._begins_early:
            # The disk writes while more arrives, instead of all of it while somebody waits for the sync.
            # A mere hint, so what it returns does not matter.
            self._libc.sync_file_range(file, _ALL, _ALL, _SYNC_FILE_RANGE_WRITE)

    def set_mtime(self, file: int, nanoseconds: int) -> None:
        os.utime(file, ns=(nanoseconds, nanoseconds))

    def truncate(self, file: int, size_bytes: int) -> None:
        os.ftruncate(file, size_bytes)

    def rename(self, source: int, name: str, target: int, new_name: str) -> None:
        os.rename(name, new_name, src_dir_fd=source, dst_dir_fd=target)

    def unlink(self, folder: int, name: str) -> None:
        os.unlink(name, dir_fd=folder)

    def make_folder(self, folder: int, name: str) -> None:
        os.mkdir(name, _FOLDER_MODE, dir_fd=folder)

    def remove_folder(self, folder: int, name: str) -> None:
        os.rmdir(name, dir_fd=folder)

    def sync(self, descriptor: int, what: Sync) -> None:  # noqa: ARG002  the kind is for the disk that forgets
        os.fsync(descriptor)

    def sync_all(self, descriptor: int, what: Sync) -> None:  # noqa: ARG002  as above
        if self._libc.syncfs(descriptor) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))


class UnsyncedDisk(RealDisk):
    """The machine's disk, never waited for: a power cut loses the last seconds, whatever was acknowledged."""

    _begins_early = False

    def sync(self, descriptor: int, what: Sync) -> None:  # noqa: ARG002  nothing is synced
        return None

    def sync_all(self, descriptor: int, what: Sync) -> None:  # noqa: ARG002  nothing is synced
        return None
