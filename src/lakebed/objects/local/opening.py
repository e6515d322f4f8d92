"""Open a root: make its folders, replay what a power cut took, clear what dead processes left.

    .lakebed/version     of this layout
    .lakebed/locks       see `locks`
    .lakebed/journal/    see `journal`
    .lakebed/scratch/    see `scratch`
    .lakebed/uploads/    see `uploads`
    .lakebed/keys/       see `names`

One process at a time opens. Journal files of a former boot are replayed all
together: the last frame of each key is made true, everything is synced, and then
they go, oldest first. A crash in between leaves the newest of them, and
replaying those again changes nothing. Other processes may have the root open and
rotate its journal meanwhile, so the replay holds `CHECKPOINT` and `APPEND`.

A root without objects and uploads is removed by the last process that has it open:

    1. hold    `OPENING`, then `USERS` alone: no process has the root open, and none opens it
    2. look    whether there is an object or an upload: if so, nothing is removed
    3. rotate  the journal: its frames must not come back after a power cut
    4. remove  what is in the state folder, the lock file last, then the folders, and sync that

Crash after 3 or in 4: an empty root with part of its state, which can be opened and removed again. A process that waits
for `OPENING` meanwhile gets the lock of a file that is gone. It sees that: one that opens begins anew with the folder; one
that leaves or removes touches nothing, because what is at the path now was made by others.
"""

import errno
import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lakebed.env.clock import Clock
from lakebed.env.ids import IdSource
from lakebed.errors import CorruptError, ErrorKind, InvalidInputError
from lakebed.objects.local.changes import Changes
from lakebed.objects.local.disk import Disk, Sync, UnsyncedDisk
from lakebed.objects.local.files import Files, open_file
from lakebed.objects.local.folders import Folder, Folders, made, open_root, subfolder
from lakebed.objects.local.frames import Frame, Kind
from lakebed.objects.local.journal import Journal, NoJournal, Recorder
from lakebed.objects.local.locks import APPEND, CHECKPOINT, LOCKS, OPENING, USERS, Held, Locks
from lakebed.objects.local.names import STATE
from lakebed.objects.local.scratch import Scratch
from lakebed.objects.local.uploads import Uploads
from lakebed.objects.local.walk import walk
from lakebed.objects.port import ObjectInfo

VERSION: Final = 1
"""Of the layout above."""

_VERSION: Final = "version"
_JOURNAL: Final = f"{STATE}/journal"
# Openings in a row that find the root removed by another process.
_ATTEMPTS_MAX: Final = 100

# Any time with nine different digits after the second: a file system that keeps less would give two versions one ETag.
_PROBE_NS: Final = 1_234_567_890_123_456_789


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenRoot:
    """An open root and its parts."""

    path: str
    disk: Disk
    files: Files
    changes: Changes
    uploads: Uploads
    scratch: Scratch
    journal: Recorder
    locks: Locks
    user: Held

    def close(self) -> None:
        """Let go of the root. The last one out leaves no journal behind."""
        self.scratch.close()
        self.user.close()
        alone = self.locks.try_keep(USERS)
        if alone is not None:
            if self.locks.is_current(alone.fd):
                self.journal.rotate()
            alone.close()
        self.locks.close()

    def remove_if_empty(self, top: str | None) -> bool:
        """Let go of the root, and remove it if it is empty; return False if another process has it open."""
        self.scratch.close()
        self.user.close()
        with self.locks.hold([OPENING]) as held:
            ended = self._remove_if_alone(top) if self.locks.is_current(held) else not is_root(self.path)
        self.locks.close()
        return ended

    def _remove_if_alone(self, top: str | None) -> bool:
        alone = self.locks.try_keep(USERS)
        if alone is None:
            return False
        self.journal.rotate()
        if not self.uploads.list() and next(_objects(self.files), None) is None:
            self._remove(top)
        alone.close()
        return True

    def _remove(self, top: str | None) -> None:
        state = self.files.folders.find(STATE)
        if state is not None:
            _remove_below(state, self.disk, spared=LOCKS)
            self.disk.unlink(state.fd, LOCKS)
        # From here another process may open the root anew.
        remove_empty_folders(self.path, top, self.disk)


def open_local_root(
    path: str,
    *,
    top: str | None = None,
    disk: Disk,
    clock: Clock,
    ids: IdSource,
    fsync: bool,
    journal_bytes_max: int,
) -> OpenRoot:
    """Return the root at `path`, made if need be.

    Raises:
        OSError: the folder cannot be made, read or written.
        CorruptError: `NEWER_VERSION`.
        InvalidInputError: `UNSUPPORTED`: this machine or file system cannot hold a store.
    """
    for _ in range(_ATTEMPTS_MAX):
        # A folder is missing if another process removed the root, as empty, since it was made here.
        with suppress(FileNotFoundError):
            opened = _open_once(
                path,
                top=top,
                disk=disk,
                clock=clock,
                ids=ids,
                fsync=fsync,
                journal_bytes_max=journal_bytes_max,
            )
            if opened is not None:
                return opened
    raise FileNotFoundError(errno.ENOENT, "the folder is removed as often as it is made", path)


def _open_once(
    path: str,
    *,
    top: str | None,
    disk: Disk,
    clock: Clock,
    ids: IdSource,
    fsync: bool,
    journal_bytes_max: int,
) -> OpenRoot | None:
    """Return the open root, or None if it was removed while this process waited for `OPENING`."""
    _make_root(Path(path), top, disk)
    root = open_root(path, top)
    folders = Folders(root, disk)
    state = made(folders, STATE)
    _check_version(state)
    locks = Locks(state.fd)
    journal = Journal(made(folders, _JOURNAL), disk=disk, locks=locks, ids=ids, bytes_max=journal_bytes_max)
    with locks.hold([OPENING]) as held:
        if not locks.is_current(held):
            return None
        folders.sync_up(_JOURNAL, Sync.STATE_ENTRY, Sync.STATE_ENTRY)
        user = locks.keep(USERS)
        scratch = Scratch(folders, disk=disk, ids=ids)
        scratch.remove_dead()
        _probe(scratch, path)
        _write_version(state, disk)
        # APPEND: a file without a header is then debris of a killed process, not one that a running process begins.
        # CHECKPOINT: no running process removes a file between the listing and the read.
        with locks.hold([CHECKPOINT, APPEND]):
            _replay(journal, Files(folders, disk, state=state), scratch, disk)
        # What a killed process recorded and did not apply was never acknowledged: it must not come back later.
        journal.rotate()
    # Opening is always synced: it removes journals that were promises.
    working: Disk = disk if fsync else UnsyncedDisk()
    recorder: Recorder = journal if fsync else NoJournal()
    files = Files(Folders(root, working), working, state=state)
    changes = Changes(path, files, disk=working, locks=locks, scratch=scratch, journal=recorder, clock=clock)
    uploads = Uploads(
        path, files.folders, disk=working, scratch=scratch, changes=changes, clock=clock, ids=ids
    )
    return OpenRoot(
        path=path,
        disk=working,
        files=files,
        changes=changes,
        uploads=uploads,
        scratch=scratch,
        journal=recorder,
        locks=locks,
        user=user,
    )


def is_root(path: str) -> bool:
    """Return whether the folder holds a store, and so must be opened before it is read."""
    return os.path.lexists(f"{path}/{STATE}")


def view_folder(path: str, top: str | None, disk: Disk) -> Files | None:
    """Return the files of a folder that holds no store yet, for reading; None if there is no folder."""
    try:
        root = open_root(path, top)
    except (FileNotFoundError, NotADirectoryError):
        return None
    return Files(Folders(root, disk), disk, state=None)


def remove_empty_folders(path: str, top: str | None, disk: Disk) -> None:
    """Remove the folder at `path`, and those below it, as far as they are empty; then those above it below `top`.

    What is in the state folder stays: a process that has just opened the root has empty folders there, and uses them.
    """
    try:
        root = open_root(path, top)
    except (FileNotFoundError, NotADirectoryError):
        root = None
    if root is not None:
        _remove_empty_below(root, disk, unseen=STATE)
    folder = Path(path)
    with suppress(OSError):  # Not empty, or another was faster.
        while top is None or Path(top) in folder.parents:
            above = open_root(str(folder.parent), top)
            disk.remove_folder(above.fd, folder.name)
            disk.sync(above.fd, Sync.ROOT_ENTRY)
            folder = folder.parent
            if top is None:
                return


def _remove_below(folder: Folder, disk: Disk, *, spared: str | None = None) -> None:
    """Remove everything in a folder but the file `spared`."""
    for name, is_folder in _entries(folder):
        if is_folder:
            _remove_below(subfolder(folder, name), disk)
            disk.remove_folder(folder.fd, name)
        elif name != spared:
            disk.unlink(folder.fd, name)


def _remove_empty_below(folder: Folder, disk: Disk, *, unseen: str | None = None) -> None:
    """Remove the folders in a folder that hold no file, without a look into the one named `unseen`."""
    for name, is_folder in _entries(folder):
        if is_folder:
            with suppress(OSError):  # Not empty, or another was faster.
                if name != unseen:
                    _remove_empty_below(subfolder(folder, name), disk)
                disk.remove_folder(folder.fd, name)


def _entries(folder: Folder) -> list[tuple[str, bool]]:
    """Return the names in a folder, and whether each is a folder."""
    with folder.entries() as entries:
        return [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]


def _objects(files: Files) -> Iterator[ObjectInfo]:
    return walk(files.folders, prefix="", start_after="")


def _replay(journal: Journal, files: Files, scratch: Scratch, disk: Disk) -> None:
    boot_id = disk.boot_id()
    numbers = journal.generations()
    last: dict[str, Frame] = {}
    former = []
    for number in numbers:
        content = journal.read(number)
        if content is None or content[0].boot_id != boot_id:
            former.append(number)
            last.update((frame.key, frame) for frame in (content[1] if content else ()))
    for frame in last.values():
        _make_true(frame, files, scratch)
    if former:
        journal.checkpoint(former)
    if former == numbers:
        journal.start(numbers[-1] + 1 if numbers else 1)


def _make_true(frame: Frame, files: Files, scratch: Scratch) -> None:
    spot = files.look(frame.key)
    match frame.kind:
        case Kind.PUT:
            name = scratch.write(frame.data, frame.mtime_ns)
            files.name(spot, source=scratch.folder, name=name)
        case Kind.GONE if spot.found is not None:
            files.remove(spot.found.place)
            files.folders.prune(spot.found.place.folder)
        case _:
            pass


def _make_root(path: Path, top: str | None, disk: Disk) -> None:
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    # If it is there, whoever made it may have died before it was safe.
    for folder in reversed(missing or [path]):
        above = open_root(str(folder.parent), top)
        with suppress(FileExistsError):
            disk.make_folder(above.fd, folder.name)
        disk.sync(above.fd, Sync.ROOT_ENTRY)


def _check_version(state: Folder) -> None:
    opened = open_file(state, _VERSION)
    if opened is None:
        return
    with os.fdopen(opened[0], "rb") as file:
        text = file.read(20).strip()
    if text and (not text.isdigit() or int(text) > VERSION):
        raise CorruptError(
            ErrorKind.NEWER_VERSION,
            f"the folder has layout {text.decode(errors='replace')}, this lakebed knows up to {VERSION}: "
            "open it with the version that wrote it",
        )


def _write_version(state: Folder, disk: Disk) -> None:
    try:
        fd = disk.create(state.fd, _VERSION)
    except FileExistsError:
        return
    with os.fdopen(fd, "wb"):
        disk.write(fd, b"%d\n" % VERSION)


def _probe(scratch: Scratch, path: str) -> None:
    name = scratch.write(b"", _PROBE_NS)
    kept_ns = os.stat(name, dir_fd=scratch.folder.fd).st_mtime_ns
    scratch.discard(name)
    if kept_ns != _PROBE_NS:
        raise InvalidInputError(
            ErrorKind.UNSUPPORTED,
            f"the file system of {path} does not keep times in nanoseconds: use ext4, xfs, btrfs or zfs",
        )
