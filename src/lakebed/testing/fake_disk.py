"""`ForgetfulDisk`: a real folder, and what a power cut would leave of it.

The file system in a machine's memory is the real one: programs read what they
wrote. Beside it the disk keeps a second picture, of what is safe: a file's bytes
as of its last sync, a folder's names as of its last sync, each on its own. `cut`
builds a new folder from that picture.

A real disk may also keep what nobody synced, in any combination. `luck` decides
for each name and each file: with none, everything unsynced is lost; with a
seeded one, whatever that seed says.

It can also fail: `stop_at` is the number of a change at which the power goes out
in the middle of things, `fail_at` one that fails with `error` (a full disk), and
`failing` a kind of sync that always does.
"""

import errno
import os
import stat
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import TypeAlias

from lakebed.objects.local.disk import RealDisk, Sync

Luck: TypeAlias = Callable[[], bool]
_BOOTS = count()


class PowerCutError(BaseException):
    """The machine is off. Not an `Exception`: nothing may handle it."""


@dataclass(slots=True, eq=False)
class _File:
    safe: bytes = b""
    safe_mtime_ns: int = 0
    current: bytes = b""
    """What was there when the file was last written through this disk."""
    current_mtime_ns: int = 0


@dataclass(slots=True, eq=False)
class _Folder:
    names: "dict[str, _Node]" = field(default_factory=dict)
    safe: "dict[str, _Node]" = field(default_factory=dict)


_Node: TypeAlias = _File | _Folder


class ForgetfulDisk(RealDisk):
    """A `Disk` for everything under `base`, which exists and is safe as it is."""

    def __init__(
        self,
        base: Path,
        *,
        ignored: Sync | None = None,
        stop_at: int | None = None,
        fail_at: int | None = None,
        error: int = errno.ENOSPC,
        failing: Sync | None = None,
    ) -> None:
        super().__init__()
        self.changes = 0
        self._boot = f"boot-{next(_BOOTS)}"
        self._ignored = ignored
        self._stop_at = stop_at
        self._fail_at = fail_at
        self._error = error
        self._failing = failing
        self._by_inode: dict[int, _Node] = {}
        self._base = self._adopt(base)

    # -- the port -----------------------------------------------------------------------------------

    def boot_id(self) -> str:
        return self._boot

    def create(self, folder: int, name: str) -> int:
        self._step()
        fd = super().create(folder, name)
        self._folder(folder).names[name] = self._by_inode[os.fstat(fd).st_ino] = _File()
        return fd

    def write(self, file: int, data: bytes | memoryview) -> None:
        self._step(lambda: super(ForgetfulDisk, self).write(file, bytes(data)[: len(data) // 2]))
        super().write(file, data)
        self._file(file).current += bytes(data)

    def set_mtime(self, file: int, nanoseconds: int) -> None:
        self._step()
        super().set_mtime(file, nanoseconds)
        self._file(file).current_mtime_ns = nanoseconds

    def truncate(self, file: int, size_bytes: int) -> None:
        self._step()
        super().truncate(file, size_bytes)
        node = self._file(file)
        node.current = node.current[:size_bytes]

    def rename(self, source: int, name: str, target: int, new_name: str) -> None:
        self._step()
        super().rename(source, name, target, new_name)
        self._folder(target).names[new_name] = self._folder(source).names.pop(name)

    def unlink(self, folder: int, name: str) -> None:
        self._step()
        super().unlink(folder, name)
        self._folder(folder).names.pop(name, None)

    def make_folder(self, folder: int, name: str) -> None:
        self._step()
        super().make_folder(folder, name)
        made = _Folder()
        self._folder(folder).names[name] = made
        self._by_inode[os.stat(name, dir_fd=folder).st_ino] = made

    def remove_folder(self, folder: int, name: str) -> None:
        self._step()
        super().remove_folder(folder, name)
        self._folder(folder).names.pop(name, None)

    def sync(self, descriptor: int, what: Sync) -> None:
        self._sync_step(what)
        if what is not self._ignored:
            _make_safe(self._by_inode[os.fstat(descriptor).st_ino])

    def sync_all(self, descriptor: int, what: Sync) -> None:
        self._sync_step(what)
        if what is not self._ignored:
            _make_all_safe(self._base)

    # -- the cut ------------------------------------------------------------------------------------

    def cut(self, target: Path, *, luck: Luck = lambda: False, stop_at: int | None = None) -> "ForgetfulDisk":
        """Build what is left in the new folder `target`; return the disk of the machine that starts again.

        It is as forgetful as this one; `stop_at` is when its power goes out.
        """
        target.mkdir()
        _restore(self._base, target, luck)
        return ForgetfulDisk(target, ignored=self._ignored, stop_at=stop_at)

    # -- inside -------------------------------------------------------------------------------------

    def _step(self, half: Callable[[], None] = lambda: None) -> None:
        """Count a change, and stop or fail at the chosen one. `half` is what is done of it before it fails."""
        self.changes += 1
        if self._stop_at is not None and self.changes >= self._stop_at:
            raise PowerCutError
        if self.changes == self._fail_at:
            half()
            raise OSError(self._error, os.strerror(self._error))

    def _sync_step(self, what: Sync) -> None:
        self._step()
        if what is self._failing:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    def _file(self, fd: int) -> _File:
        node = self._by_inode[os.fstat(fd).st_ino]
        assert isinstance(node, _File)
        return node

    def _folder(self, fd: int) -> _Folder:
        node = self._by_inode[os.fstat(fd).st_ino]
        assert isinstance(node, _Folder)
        return node

    def _adopt(self, path: Path) -> _Folder:
        folder = _Folder()
        self._by_inode[path.stat().st_ino] = folder
        for entry in path.iterdir():
            found = entry.lstat()
            if stat.S_ISDIR(found.st_mode):
                folder.names[entry.name] = self._adopt(entry)
            elif stat.S_ISREG(found.st_mode):
                data = entry.read_bytes()
                file = _File(data, found.st_mtime_ns, data, found.st_mtime_ns)
                folder.names[entry.name] = self._by_inode[found.st_ino] = file
        folder.safe = dict(folder.names)
        return folder


def _make_safe(node: _Node) -> None:
    if isinstance(node, _File):
        node.safe, node.safe_mtime_ns = node.current, node.current_mtime_ns
    else:
        node.safe = dict(node.names)


def _make_all_safe(node: _Node) -> None:
    _make_safe(node)
    if isinstance(node, _Folder):
        for below in node.names.values():
            _make_all_safe(below)


def _restore(folder: _Folder, path: Path, luck: Luck) -> None:
    for name in sorted(folder.safe.keys() | folder.names.keys()):
        node = folder.names.get(name) if luck() else folder.safe.get(name)
        if isinstance(node, _Folder):
            (path / name).mkdir()
            _restore(node, path / name, luck)
        elif node is not None:
            lucky = luck()
            data = node.current if lucky else node.safe
            if not lucky and luck():  # torn: some of what was being written
                data = node.current[: (len(node.safe) + len(node.current)) // 2]
            (path / name).write_bytes(data)
            mtime_ns = node.current_mtime_ns if lucky else node.safe_mtime_ns
            os.utime(path / name, ns=(mtime_ns, mtime_ns))
