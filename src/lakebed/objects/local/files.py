"""Objects as files: find, open, name, remove. No locks and no journal here; see `changes`.

A file appears by a rename and is never written to again, so whoever has opened
one reads one version to the end.
"""

import errno
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from lakebed.objects.local.disk import Disk
from lakebed.objects.local.folders import Folder, Folders, made
from lakebed.objects.local.names import HIDDEN, STATE, Place, hidden_place, plain_place

# No link is followed, and a pipe that someone put there does not make us wait.
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NOT_A_FILE: Final = frozenset({errno.ENOENT, errno.ELOOP, errno.ENXIO})
# Renames that lose their folder to someone who removes empty ones, in a row.
_ATTEMPTS_MAX: Final = 100


@dataclass(frozen=True, slots=True)
class Found:
    """A file that holds an object."""

    place: Place
    stat: os.stat_result


class Files:
    """The objects under one root. Quick enough for the event loop, except where folders are made."""

    def __init__(self, folders: Folders, disk: Disk, *, state: Folder | None) -> None:
        self.folders = folders
        self._disk = disk
        self._state = state

    def find(self, key: str) -> Found | None:
        """Return the file of `key`, or None if there is no such object."""
        for place in self._places(key):
            folder = self.folders.find(place.folder)
            if folder is None:
                continue
            found = _stat(folder, place.name)
            if found is not None and stat.S_ISREG(found.st_mode):
                return Found(place, found)
        return None

    def open(self, key: str) -> tuple[int, os.stat_result] | None:
        """Return a descriptor of the file of `key`, which the caller closes; None if there is no such object."""
        for place in self._places(key):
            folder = self.folders.find(place.folder)
            opened = None if folder is None else open_file(folder, place.name)
            if opened is not None:
                return opened
        return None

    def choose(self, key: str, found: Found | None) -> tuple[Folder, Place]:
        """Return where the next version of `key` goes, its folder made: where the last one is, else as itself."""
        plain = plain_place(key)
        if found is not None and found.place != plain:
            plain = None
        if plain is not None:
            folder = self.folders.make(plain.folder)
            if folder is not None and not _is_taken(folder, plain.name):
                return folder, plain
        place = hidden_place(key)
        return made(self.folders, place.folder), place

    def name(self, key: str, found: Found | None, *, source: Folder, name: str) -> Place:
        """Move the file `name` of the folder `source` to where `key` lives."""
        for _ in range(_ATTEMPTS_MAX):
            folder, place = self.choose(key, found)
            try:
                self._disk.rename(source.fd, name, folder.fd, place.name)
            except (FileNotFoundError, IsADirectoryError):
                continue  # The folder was removed as empty, or the name became a folder: choose again.
            return place
        raise FileNotFoundError(errno.ENOENT, "its folder is removed as often as it is made", key)

    def remove(self, place: Place) -> None:
        """Remove a file. Its folder may be left empty; see `Folders.prune`."""
        folder = self.folders.find(place.folder)
        if folder is None:
            return
        try:
            self._disk.unlink(folder.fd, place.name)
        except FileNotFoundError:
            return

    def _places(self, key: str) -> Iterator[Place]:
        plain = plain_place(key)
        if plain is not None:
            yield plain
        # A look at one folder spares the second look at every key that is not there.
        if self._state is not None and os.access(_HIDDEN_NAME, os.F_OK, dir_fd=self._state.fd):
            yield hidden_place(key)


_HIDDEN_NAME: Final = HIDDEN.removeprefix(f"{STATE}/")


def open_file(folder: Folder, name: str) -> tuple[int, os.stat_result] | None:
    """Return a descriptor of a plain file, or None if `name` is not there or is something else."""
    try:
        fd = os.open(name, _READ, dir_fd=folder.fd)
    except OSError as error:
        if error.errno in _NOT_A_FILE:
            return None
        raise
    found = os.fstat(fd)
    if stat.S_ISREG(found.st_mode):
        return fd, found
    os.close(fd)
    return None


def _stat(folder: Folder, name: str) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=folder.fd, follow_symlinks=False)
    except FileNotFoundError:
        return None


def _is_taken(folder: Folder, name: str) -> bool:
    """Return whether something that is no object has the name."""
    found = _stat(folder, name)
    return found is not None and not stat.S_ISREG(found.st_mode)
