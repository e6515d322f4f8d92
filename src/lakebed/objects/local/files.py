"""Objects as files: find, open, name, remove. No locks and no journal here; see `changes`.

A file appears by a rename and is never written to again, so whoever has opened
one reads one version to the end.
"""

import errno
import os
import stat
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


@dataclass(frozen=True, slots=True)
class Spot:
    """What a look at a key showed: good for one decision, made under the key's lock."""

    key: str
    found: Found | None
    plain: Place | None
    """The key as itself, unless something that is no object has that name."""
    folder: Folder | None
    """The folder of `plain`, if it is there."""


class Files:
    """The objects under one root. Quick enough for the event loop, except where folders are made."""

    def __init__(self, folders: Folders, disk: Disk, *, state: Folder | None) -> None:
        self.folders = folders
        self._disk = disk
        self._state = state

    def find(self, key: str) -> Found | None:
        """Return the file of `key`, or None if there is no such object."""
        return self.look(key).found

    def look(self, key: str) -> Spot:
        """Return the file of `key` if there is one, and what a new one has to know."""
        plain = plain_place(key)
        folder = None if plain is None else self.folders.find(plain.folder)
        if plain is not None and folder is not None:
            found = _stat(folder, plain.name)
            if found is not None and stat.S_ISREG(found.st_mode):
                return Spot(key, Found(plain, found), plain, folder)
            plain = plain if found is None else None
        return Spot(key, self._find_hidden(key), plain, folder)

    def open(self, key: str) -> tuple[int, os.stat_result] | None:
        """Return a descriptor of the file of `key`, which the caller closes; None if there is no such object."""
        plain = plain_place(key)
        folder = None if plain is None else self.folders.find(plain.folder)
        opened = None if plain is None or folder is None else open_file(folder, plain.name)
        if opened is None and self._hides_keys():
            place = hidden_place(key)
            folder = self.folders.find(place.folder)
            opened = None if folder is None else open_file(folder, place.name)
        return opened

    def choose(self, spot: Spot) -> tuple[Folder, Place]:
        """Return where the next version of a key goes, its folder made: where the last one is, else as itself."""
        hidden = spot.found is not None and spot.found.place != spot.plain
        if spot.plain is not None and not hidden:
            folder = spot.folder or self.folders.make(spot.plain.folder)
            if folder is not None:
                return folder, spot.plain
        place = hidden_place(spot.key)
        return made(self.folders, place.folder), place

    def name(self, spot: Spot, *, source: Folder, name: str) -> Place:
        """Move the file `name` of the folder `source` to where the key lives."""
        for _ in range(_ATTEMPTS_MAX):
            folder, place = self.choose(spot)
            try:
                self._disk.rename(source.fd, name, folder.fd, place.name)
            except (FileNotFoundError, IsADirectoryError):
                # The folder was removed as empty, or the name became a folder: look again.
                spot = self.look(spot.key)
                continue
            return place
        raise FileNotFoundError(errno.ENOENT, "its folder is removed as often as it is made", spot.key)

    def remove(self, place: Place) -> None:
        """Remove a file. Its folder may be left empty; see `Folders.prune`."""
        folder = self.folders.find(place.folder)
        if folder is None:
            return
        try:
            self._disk.unlink(folder.fd, place.name)
        except FileNotFoundError:
            return

    def _find_hidden(self, key: str) -> Found | None:
        if not self._hides_keys():
            return None
        place = hidden_place(key)
        folder = self.folders.find(place.folder)
        found = None if folder is None else _stat(folder, place.name)
        return None if found is None else Found(place, found)

    def _hides_keys(self) -> bool:
        """Return whether any key is hidden: one look that spares the second look at most keys."""
        return self._state is not None and os.access(_HIDDEN_NAME, os.F_OK, dir_fd=self._state.fd)


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
