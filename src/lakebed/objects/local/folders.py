"""Folders under a root, reached without following a symbolic link.

A folder is opened segment by segment from the root's descriptor, and files are
then opened relative to it. So no key, and no link planted inside the root, can
name anything outside, and nothing is checked that could change before it is used.
"""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

from lakebed.objects.local.disk import Disk, Sync
from lakebed.objects.local.names import is_file_name

_FLAGS: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# What opening a segment says when a file, a link or a socket is in the way.
_BLOCKED: Final = frozenset({errno.ENOTDIR, errno.ELOOP})
# Folders of one store that stay open: those being written to and a few that are read, and no more, because the stores of
# a process share its descriptors (`STORE_DESCRIPTORS_MAX`).
_KEPT_MAX: Final = 16
# A folder that is removed as often as it is made again: somebody is at war with us.
_ATTEMPTS_MAX: Final = 100


class Folder:
    """An open folder. It closes when the last reference goes, so no thread loses it while using it."""

    __slots__ = ("fd",)

    def __init__(self, fd: int) -> None:
        self.fd = fd

    def __del__(self) -> None:
        os.close(self.fd)

    def is_gone(self) -> bool:
        """Return whether the folder was removed since it was opened."""
        return os.fstat(self.fd).st_nlink == 0

    def names(self) -> list[str]:
        """Return what is in it, in no order."""
        with self.entries() as entries:
            return [entry.name for entry in entries]

    @contextmanager
    def entries(self) -> Iterator[Iterator[os.DirEntry[str]]]:
        """Give what is in it, in no order.

        Read through a descriptor of its own: one that is shared, or duplicated, remembers one place in the folder
        for all, and two who read at the same time would each get a part.
        """
        fd = os.open(".", _FLAGS, dir_fd=self.fd)
        try:
            with os.scandir(fd) as entries:
                yield entries
        finally:
            os.close(fd)


class Folders:
    """The folders of one root, those used last kept open."""

    def __init__(self, root: Folder, disk: Disk, *, kept_max: int = _KEPT_MAX) -> None:
        self._root = root
        self._disk = disk
        self._kept_max = kept_max
        self._kept: dict[str, Folder] = {}

    def find(self, path: str) -> Folder | None:
        """Return the folder, or None if it is not there or something else is in its place."""
        if not path:
            return self._root
        kept = self._kept.get(path)
        if kept is not None and not kept.is_gone():
            return kept
        folder = self._root
        for segment in path.split("/"):
            try:
                folder = subfolder(folder, segment)
            except FileNotFoundError:
                return None
            except OSError as error:
                if error.errno in _BLOCKED:
                    return None
                raise
        return self._keep(path, folder)

    def make(self, path: str) -> Folder | None:
        """Return the folder, made if need be; None if something that is no folder is in the way."""
        for _ in range(_ATTEMPTS_MAX):
            found = self.find(path)
            if found is not None:
                return found
            try:
                return self._keep(path, self._make(path))
            except FileNotFoundError:
                continue  # Emptied and removed by another process meanwhile.
            except OSError as error:
                if error.errno in _BLOCKED:
                    return None
                raise
        raise FileNotFoundError(errno.ENOENT, "the folder is removed as often as it is made", path)

    def prune(self, path: str) -> None:
        """Remove the folder, and those above it, as far as they are empty. The root stays."""
        while path:
            above, _, name = path.rpartition("/")
            folder = self.find(above)
            if folder is None:
                return
            try:
                self._disk.remove_folder(folder.fd, name)
            except OSError:
                return  # Not empty, or another was faster. An empty folder does no harm either.
            self._kept.pop(path, None)
            path = above

    def sync_up(self, path: str, what: Sync, above: Sync) -> None:
        """Make the names in the folder safe, and its own name, up to the root."""
        for folder, kind in zip(self._upwards(path), _first_then(what, above), strict=False):
            self._disk.sync(folder.fd, kind)

    def _upwards(self, path: str) -> Iterator[Folder]:
        while True:
            folder = self.find(path)
            if folder is None:
                raise FileNotFoundError(errno.ENOENT, "the folder of an object is gone", path)
            yield folder
            if not path:
                return
            path = path.rpartition("/")[0]

    def _make(self, path: str) -> Folder:
        folder = self._root
        for segment in path.split("/"):
            try:
                folder = subfolder(folder, segment)
            except FileNotFoundError:
                pass
            else:
                continue
            with suppress(FileExistsError):  # Another process was faster.
                self._disk.make_folder(folder.fd, segment)
            folder = subfolder(folder, segment)
        return folder

    def _keep(self, path: str, folder: Folder) -> Folder:
        if len(self._kept) >= self._kept_max:
            # All at once: a rare, cheap reopening instead of bookkeeping on every use.
            self._kept = {}
        self._kept[path] = folder
        return folder


def open_root(path: str, top: str | None = None) -> Folder:
    """Return the folder at `path`, through whatever links lead to `top`, or to `path` if there is none: the operator chose
    that folder. Below it no link is followed.
    """
    if top is None or not path.startswith(f"{top.rstrip('/')}/"):
        return Folder(os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))
    folder = open_root(top)
    for segment in path[len(top) :].strip("/").split("/"):
        folder = subfolder(folder, segment)
    return folder


def made(folders: Folders, path: str) -> Folder:
    """Return a folder of our own, made if need be."""
    folder = folders.make(path)
    if folder is None:
        raise NotADirectoryError(errno.ENOTDIR, "something that is no folder is in the way", path)
    return folder


def subfolder(folder: Folder, segment: str) -> Folder:
    """Return a folder directly in another."""
    if not is_file_name(segment):
        raise FileNotFoundError(errno.ENOENT, "no folder has this name", segment)
    return Folder(os.open(segment, _FLAGS, dir_fd=folder.fd))


def _first_then(first: Sync, rest: Sync) -> Iterator[Sync]:
    yield first
    while True:
        yield rest
