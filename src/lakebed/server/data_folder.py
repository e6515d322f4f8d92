"""The data folder of an embedded installation: what is where, whose it is, and which version wrote it.

kv/        the key-value store
objects/   repositories at local://name
cache/     decoded ranges; may be deleted at any time
tmp/       work in progress; may be deleted while nothing runs
VERSION    the layout's version
lock       held by the process that serves the folder

installation.key   what secrets are encrypted with, unless one is configured
lakebed.toml       settings, if somebody put them here
"""

import errno
import fcntl
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from lakebed.errors import CorruptError, ErrorKind, InvalidInputError, LakebedError, UnavailableError

LAYOUT_VERSION = 1
_FOLDERS = ("kv", "objects", "cache", "tmp")
_FOLDER_MODE = 0o700
_FILE_MODE = 0o600
# Bodies that were being received, and files of imports and adoptions: only processes under the lock make them. `lakebed verify` may run
# beside the server, so its files are not touched.
_LEFT = ("spool-", "import-", "adopt-")


@dataclass(frozen=True, slots=True)
class Layout:
    """What is where below `path`."""

    path: Path

    @property
    def kv(self) -> Path:
        return self.path / "kv"

    @property
    def objects(self) -> Path:
        return self.path / "objects"

    @property
    def cache(self) -> Path:
        return self.path / "cache"

    @property
    def tmp(self) -> Path:
        return self.path / "tmp"

    @property
    def metrics(self) -> Path:
        return self.path / "tmp" / "metrics"

    @property
    def key(self) -> Path:
        return self.path / "installation.key"


class DataFolder:
    """A data folder held by this process until `close`."""

    def __init__(self, path: Path, lock: int) -> None:
        self.path = path
        self._lock = lock

    @classmethod
    def open(cls, path: Path) -> Self:
        """Create the folder if need be, and hold it.

        Raises:
            UnavailableError: `IN_USE`: another process serves it; `DISK_FULL`.
            CorruptError: `NEWER_VERSION`; `UNREADABLE`: its version is none.
            InvalidInputError: `INVALID_CONFIG`: it cannot be a data folder.
        """
        path = path.absolute()
        try:
            _make_folder(path)
            lock = os.open(path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise _unusable(path, error) from error
        folder = cls(path, lock)
        try:
            folder._prepare()
        except OSError as error:
            folder.close()
            raise _unusable(path, error) from error
        except LakebedError:
            folder.close()
            raise
        return folder

    @property
    def layout(self) -> Layout:
        return Layout(self.path)

    def close(self) -> None:
        os.close(self._lock)

    def _prepare(self) -> None:
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise UnavailableError(
                ErrorKind.IN_USE,
                f"another lakebed serves {self.path}: use that one, stop it, or choose another folder with --data",
            ) from error
        self._check_version()
        for name in _FOLDERS:
            (self.path / name).mkdir(mode=_FOLDER_MODE, exist_ok=True)
            # Folders that an earlier version made were open to other accounts.
            (self.path / name).chmod(_FOLDER_MODE)
        self._empty_tmp()
        # What is stored below is synced by whoever stores it; these names are not.
        _sync(self.path)

    def _empty_tmp(self) -> None:
        """Remove what processes that were killed left in `tmp/`: none of them runs while this one takes the lock."""
        for left in [each for prefix in _LEFT for each in (self.path / "tmp").glob(f"{prefix}*")]:
            if left.is_dir() and not left.is_symlink():
                shutil.rmtree(left, ignore_errors=True)
            else:
                left.unlink(missing_ok=True)

    def _check_version(self) -> None:
        marker = self.path / "VERSION"
        try:
            text = marker.read_bytes().strip()
        except FileNotFoundError:
            _write_whole(marker, b"%d\n" % LAYOUT_VERSION)
            return
        if not text.isdigit():
            raise CorruptError(
                ErrorKind.UNREADABLE,
                f"{marker} says {text!r}, which is no version: restore it, or choose another folder with --data",
            )
        if int(text) > LAYOUT_VERSION:
            raise CorruptError(
                ErrorKind.NEWER_VERSION,
                f"{self.path} was written by a newer lakebed (layout {int(text)}, this one knows {LAYOUT_VERSION}): upgrade lakebed",
            )


def make_data_folder(path: Path) -> None:
    """Make one for a process that works beside servers, unless one of those holds it already."""
    try:
        folder = DataFolder.open(path)
    except UnavailableError as error:
        if error.kind is not ErrorKind.IN_USE:
            raise
        return
    # Not held: a server may be started beside this process, and databases and caches know how to be shared.
    folder.close()


def is_data_folder(path: Path) -> bool:
    """Return whether `path` was made by `DataFolder.open`; looks only."""
    return (path / "VERSION").is_file()


def _make_folder(path: Path) -> None:
    missing = [each for each in (path, *path.parents) if not each.exists()]
    for made in reversed(missing):
        made.mkdir(mode=_FOLDER_MODE, exist_ok=True)
        _sync(made.parent)


def _write_whole(path: Path, content: bytes) -> None:
    """Write a file that is there whole or not at all, whenever the machine stops."""
    temporary = path.with_name(f"{path.name}.new")
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, _FILE_MODE)
    with os.fdopen(handle, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _unusable(path: Path, error: OSError) -> LakebedError:
    if error.errno in {errno.ENOSPC, errno.EDQUOT}:
        return UnavailableError(
            ErrorKind.DISK_FULL, f"the disk that holds {path} is full: free space there, then try again"
        )
    return InvalidInputError(
        ErrorKind.INVALID_CONFIG,
        f"{path} cannot be used as data folder: {error.strerror}. Choose another with --data",
    )
