"""The data folder of an embedded installation: what is where, whose it is, and which version wrote it.

kv/        the key-value store
objects/   repositories at local://name
cache/     decoded ranges; may be deleted at any time
tmp/       work in progress; may be deleted while nothing runs
VERSION    the layout's version
lock       held by the process that serves the folder
"""

import fcntl
import os
from pathlib import Path
from typing import Self

from lakebed.errors import CorruptError, ErrorKind, InvalidInputError, UnavailableError

LAYOUT_VERSION = 1


class DataFolder:
    """A data folder held by this process until `close`."""

    def __init__(self, path: Path, lock: int) -> None:
        self.path = path
        self._lock = lock

    @classmethod
    def open(cls, path: Path) -> Self:
        """Create the folder if need be, and hold it.

        Raises:
            UnavailableError: `IN_USE`: another process serves it.
            CorruptError: `NEWER_VERSION`.
            InvalidInputError: `INVALID_CONFIG`: it cannot be a data folder.
        """
        path = path.absolute()
        try:
            path.mkdir(parents=True, exist_ok=True)
            lock = os.open(path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise InvalidInputError(
                ErrorKind.INVALID_CONFIG,
                f"{path} cannot be used as data folder: {error.strerror}. Choose another with --data",
            ) from error
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(lock)
            raise UnavailableError(
                ErrorKind.IN_USE,
                f"another lakebed serves {path}: use that one, stop it, or choose another folder with --data",
            ) from error
        folder = cls(path, lock)
        try:
            folder._check_version()
        except CorruptError:
            folder.close()
            raise
        for name in ("kv", "objects", "cache", "tmp"):
            (path / name).mkdir(exist_ok=True)
        return folder

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

    def close(self) -> None:
        os.close(self._lock)

    def _check_version(self) -> None:
        marker = self.path / "VERSION"
        if not marker.exists():
            marker.write_text(f"{LAYOUT_VERSION}\n")
            return
        text = marker.read_text().strip()
        if not text.isdigit():
            raise CorruptError(
                ErrorKind.UNREADABLE, f"{marker} says {text!r}: this is not a data folder of lakebed"
            )
        if int(text) > LAYOUT_VERSION:
            raise CorruptError(
                ErrorKind.NEWER_VERSION,
                f"{self.path} was written by a newer lakebed (layout {text}, this one knows {LAYOUT_VERSION}): upgrade lakebed",
            )
