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
"""

import os
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
from lakebed.objects.local.folders import Folder, Folders, made, open_root
from lakebed.objects.local.frames import Frame, Kind
from lakebed.objects.local.journal import Journal, NoJournal, Recorder
from lakebed.objects.local.locks import APPEND, CHECKPOINT, OPENING, USERS, Held, Locks
from lakebed.objects.local.names import STATE
from lakebed.objects.local.scratch import Scratch
from lakebed.objects.local.uploads import Uploads

VERSION: Final = 1
"""Of the layout above."""

_VERSION: Final = "version"
_JOURNAL: Final = f"{STATE}/journal"

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
            self.journal.rotate()
            alone.close()
        self.locks.close()


def open_local_root(
    path: str, *, disk: Disk, clock: Clock, ids: IdSource, fsync: bool, journal_bytes_max: int
) -> OpenRoot:
    """Return the root at `path`, made if need be.

    Raises:
        OSError: the folder cannot be made, read or written.
        CorruptError: `NEWER_VERSION`.
        InvalidInputError: `UNSUPPORTED`: this machine or file system cannot hold a store.
    """
    _make_root(Path(path), disk)
    root = open_root(path)
    folders = Folders(root, disk)
    state = made(folders, STATE)
    _check_version(state)
    locks = Locks(state.fd)
    journal = Journal(made(folders, _JOURNAL), disk=disk, locks=locks, ids=ids, bytes_max=journal_bytes_max)
    with locks.hold([OPENING]):
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


def view_folder(path: str, disk: Disk) -> Files | None:
    """Return the files of a folder that holds no store yet, for reading; None if there is no folder."""
    try:
        root = open_root(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    return Files(Folders(root, disk), disk, state=None)


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


def _make_root(path: Path, disk: Disk) -> None:
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    # If it is there, whoever made it may have died before it was safe.
    for folder in reversed(missing or [path]):
        above = open_root(str(folder.parent))
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
