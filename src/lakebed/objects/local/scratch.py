"""Files that are being written and have no name yet that anyone looks for.

Each open store has a folder of its own under `.lakebed/scratch`, locked while the
store is open, so the next one to open the root knows whose leftovers to remove.
"""

import fcntl
import os
from itertools import count
from typing import Final

from lakebed.env.ids import IdSource
from lakebed.objects.local.disk import Disk
from lakebed.objects.local.folders import Folder, Folders, made
from lakebed.objects.local.names import STATE

_PATH: Final = f"{STATE}/scratch"


class Scratch:
    """Unnamed files of one open store."""

    def __init__(self, folders: Folders, *, disk: Disk, ids: IdSource) -> None:
        self._folders = folders
        self._disk = disk
        self._name = ids.token()
        self._numbers = count()
        self.folder = made(folders, f"{_PATH}/{self._name}")
        fcntl.flock(self.folder.fd, fcntl.LOCK_EX)

    def create(self) -> tuple[str, int]:
        """Return the name and descriptor of a new, empty file."""
        name = f"{next(self._numbers):x}"
        return name, self._disk.create(self.folder.fd, name)

    def write(self, data: bytes, stamp_ns: int) -> str:
        """Return the name of a new file with these bytes."""
        name, fd = self.create()
        try:
            self._disk.write(fd, data)
            self._disk.set_mtime(fd, stamp_ns)
        except OSError:
            self.discard(name)
            raise
        finally:
            os.close(fd)
        return name

    def discard(self, name: str) -> None:
        """Remove a file that will not get a name."""
        try:
            self._disk.unlink(self.folder.fd, name)
        except OSError:
            return  # It stays until this store is closed and another opened.

    def remove_dead(self) -> None:
        """Remove what stores left behind that no longer run."""
        above = made(self._folders, _PATH)
        for name in above.names():
            folder = self._folders.find(f"{_PATH}/{name}")
            if name != self._name and folder is not None and _lock(folder):
                _empty(folder, self._disk)
                self._folders.prune(f"{_PATH}/{name}")

    def close(self) -> None:
        """Remove the folder and whatever is left in it."""
        _empty(self.folder, self._disk)
        self._folders.prune(f"{_PATH}/{self._name}")


def _lock(folder: Folder) -> bool:
    try:
        fcntl.flock(folder.fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _empty(folder: Folder, disk: Disk) -> None:
    for name in folder.names():
        disk.unlink(folder.fd, name)
