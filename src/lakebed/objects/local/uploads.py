"""Multipart uploads: a folder of parts that becomes one file. Blocking.

    .lakebed/uploads/<upload>/key        the key it is for
    .lakebed/uploads/<upload>/<number>   a part, five digits

A part is synced when it is acknowledged, as a store would do it. Completing
copies the parts into one file, which then becomes the object like any large one;
the folder goes last, so a crash anywhere lets the caller complete again.
"""

import os
import re
from collections.abc import Sequence
from typing import Final

from lakebed.env.clock import Clock
from lakebed.env.ids import IdSource
from lakebed.limits import STREAM_CHUNK_BYTES
from lakebed.objects.checks import part_missing, upload_missing, wrong_size
from lakebed.objects.local.changes import Changes
from lakebed.objects.local.disk import Disk, Sync
from lakebed.objects.local.etags import Stamps, etag_of, etag_of_file
from lakebed.objects.local.faults import translated
from lakebed.objects.local.files import open_file
from lakebed.objects.local.folders import Folder, Folders, made
from lakebed.objects.local.names import STATE
from lakebed.objects.local.scratch import Scratch
from lakebed.objects.port import ETag, OpenUpload, Part, PutMode

_PATH: Final = f"{STATE}/uploads"
_UPLOAD: Final = re.compile(r"[0-9a-v]{20}")
_KEY: Final = "key"


class Uploads:
    """The uploads under one root."""

    def __init__(
        self,
        root: str,
        folders: Folders,
        *,
        disk: Disk,
        scratch: Scratch,
        changes: Changes,
        clock: Clock,
        ids: IdSource,
    ) -> None:
        self._root = root
        self._folders = folders
        self._disk = disk
        self._scratch = scratch
        self._changes = changes
        self._stamps = Stamps(clock)
        self._ids = ids

    def create(self, key: str) -> str:
        """Begin an upload and return its id."""
        upload = self._ids.token()
        with translated(self._root):
            folder = made(self._folders, f"{_PATH}/{upload}")
            self._store(folder, _KEY, key.encode(), 0)
            self._folders.sync_up(f"{_PATH}/{upload}", Sync.UPLOAD_ENTRY, Sync.UPLOAD_ENTRY)
        return upload

    def put_part(self, key: str, upload: str, number: int, data: bytes) -> Part:
        """Keep one part."""
        with translated(self._root):
            folder = self.find(key, upload)
            stamp = self._stamps.next_after(None)
            self._store(folder, _part(number), data, stamp)
            self._disk.sync(folder.fd, Sync.PART_ENTRY)
        return Part(number, etag_of(stamp, len(data)), len(data))

    def create_file(self) -> tuple[str, int]:
        """Return the name and descriptor of a file that may become a part."""
        with translated(self._root):
            return self._scratch.create()

    def write(self, fd: int, data: bytes) -> None:
        """Add bytes to such a file."""
        with translated(self._root):
            self._disk.write(fd, data)

    def name_part(self, folder: Folder, number: int, name: str, fd: int) -> ETag:
        """Make a file, which is closed by the caller, the part of that number."""
        with translated(self._root):
            stamp = self._stamps.next_after(None)
            self._disk.set_mtime(fd, stamp)
            self._disk.sync(fd, Sync.PART_DATA)
            self._disk.rename(self._scratch.folder.fd, name, folder.fd, _part(number))
            self._disk.sync(folder.fd, Sync.PART_ENTRY)
        return etag_of(stamp, os.fstat(fd).st_size)

    def discard(self, name: str) -> None:
        """Remove a file that becomes no part."""
        self._scratch.discard(name)

    def complete(self, key: str, upload: str, parts: Sequence[Part]) -> ETag:
        """Make the object and end the upload."""
        name, fd = self._scratch.create()
        try:
            with translated(self._root):
                self._gather(self.find(key, upload), parts, fd)
            etag = self._changes.put_file(key, name, fd, when=PutMode.OVERWRITE)
        finally:
            os.close(fd)
            self._scratch.discard(name)
        self._remove(upload)
        return etag

    def abort(self, key: str, upload: str) -> None:
        """End the upload. A missing one is no error."""
        if self._key_of(upload) == key:
            self._remove(upload)

    def list(self) -> Sequence[OpenUpload]:
        """Return the open uploads. A folder without a key is what a crash left of one, and no upload."""
        above = self._folders.find(_PATH)
        names = above.names() if above is not None else []
        keys = {name: self._key_of(name) for name in names}
        return [OpenUpload(key, name) for name, key in keys.items() if key is not None]

    def find(self, key: str, upload: str) -> Folder:
        """Return the folder of an upload, or raise `NotFoundError`."""
        folder = self._folders.find(f"{_PATH}/{upload}")
        if folder is None or self._key_of(upload) != key:
            raise upload_missing(upload)
        return folder

    def _key_of(self, upload: str) -> str | None:
        # The id comes from a client: nothing but an id may become a path.
        if _UPLOAD.fullmatch(upload) is None:
            return None
        folder = self._folders.find(f"{_PATH}/{upload}")
        opened = None if folder is None else open_file(folder, _KEY)
        if opened is None:
            return None
        with os.fdopen(opened[0], "rb") as file:
            return file.read().decode()

    def _store(self, folder: Folder, name: str, data: bytes, stamp: int) -> None:
        temporary, fd = self._scratch.create()
        try:
            self._disk.write(fd, data)
            self._disk.set_mtime(fd, stamp)
            self._disk.sync(fd, Sync.PART_DATA)
            self._disk.rename(self._scratch.folder.fd, temporary, folder.fd, name)
        except OSError:
            self._scratch.discard(temporary)
            raise
        finally:
            os.close(fd)

    def _gather(self, folder: Folder, parts: Sequence[Part], target: int) -> None:
        for part in parts:
            opened = open_file(folder, _part(part.number))
            if opened is None:
                raise part_missing(part.number)
            fd, found = opened
            try:
                if etag_of_file(found) != part.etag:
                    raise part_missing(part.number)
                copy_bytes(self._disk, fd, target)
            finally:
                os.close(fd)

    def _remove(self, upload: str) -> None:
        path = f"{_PATH}/{upload}"
        folder = self._folders.find(path)
        if folder is None:
            return
        with translated(self._root):
            # The key goes last: without it nobody could abort the rest.
            for name in sorted(folder.names()):
                self._disk.unlink(folder.fd, name)
        self._folders.prune(path)


class PartSpool:
    """A part on its way: bytes that arrive in pieces. Write, then `finish`; `close` in any case."""

    def __init__(self, uploads: Uploads, key: str, upload: str, number: int) -> None:
        self._uploads = uploads
        self._folder = uploads.find(key, upload)
        self._number = number
        self._size_bytes = 0
        self._name, self._fd = uploads.create_file()
        self._named = False

    def write(self, data: bytes) -> None:
        """Add bytes at the end."""
        self._uploads.write(self._fd, data)
        self._size_bytes += len(data)

    def finish(self, size_bytes: int) -> Part:
        """Keep the part, if it has the size that was announced."""
        if self._size_bytes != size_bytes:
            raise wrong_size(self._number, size_bytes)
        etag = self._uploads.name_part(self._folder, self._number, self._name, self._fd)
        self._named = True
        return Part(self._number, etag, size_bytes)

    def close(self) -> None:
        """Release the file; without `finish` nothing is left of it."""
        os.close(self._fd)
        if not self._named:
            self._uploads.discard(self._name)


def copy_bytes(disk: Disk, source: int, target: int) -> None:
    """Append the file `source` to the file `target`."""
    position = 0
    while chunk := os.pread(source, STREAM_CHUNK_BYTES, position):
        disk.write(target, chunk)
        position += len(chunk)


def _part(number: int) -> str:
    return f"{number:05}"
