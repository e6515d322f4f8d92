"""Change objects so that the change holds whatever dies next. Blocking; for worker threads.

Every change of a key is made under the key's lock: between looking and changing
nobody else changes it, in whatever process, and frames are in the order of changes.

Small puts, many at a time:

    1. lock     the keys, and look: those whose condition fails are out
    2. write    each into a scratch file, and make its folder (a full disk shows here)
    3. record   all of them in the journal: one sync
    4. rename   the scratch files; unlock; acknowledge

Crash before 3: nothing. After 3: unacknowledged; a power cut may apply it, a
mere crash does not. After 4: a power cut replays the journal.

A large object is synced by itself (bytes, name, folders above), and the journal
then says `DIRECT`, so that no older frame of the key is replayed over it.
"""

import os
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

from lakebed.env.clock import Clock
from lakebed.errors import LakebedError
from lakebed.limits import DELETE_BATCH
from lakebed.objects.checks import condition_failed, key_exists
from lakebed.objects.local.disk import Disk, Sync
from lakebed.objects.local.etags import Stamps, etag_of, etag_of_file
from lakebed.objects.local.faults import disk_error, translated
from lakebed.objects.local.files import Files, Spot
from lakebed.objects.local.frames import Frame, Kind
from lakebed.objects.local.journal import Recorder
from lakebed.objects.local.locks import Locks, key_lock
from lakebed.objects.local.scratch import Scratch
from lakebed.objects.port import ETag, IfMatch, PutMode, PutWhen


@dataclass(frozen=True, slots=True)
class SmallPut:
    """A put that goes through the journal."""

    key: str
    data: bytes
    when: PutWhen


@dataclass(frozen=True, slots=True)
class _Written:
    put: SmallPut
    spot: Spot
    scratch: str
    stamp: int


class Changes:
    """All changes of the objects under `root`."""

    def __init__(
        self,
        root: str,
        files: Files,
        *,
        disk: Disk,
        locks: Locks,
        scratch: Scratch,
        journal: Recorder,
        clock: Clock,
    ) -> None:
        self._root = root
        self._files = files
        self._disk = disk
        self._locks = locks
        self._scratch = scratch
        self._journal = journal
        self._stamps = Stamps(clock)

    def is_quick(self, puts: Sequence[SmallPut]) -> bool:
        """Return whether `put_small` would wait for neither the disk nor anyone else: nothing is synced, and nobody
        else has names that are all new.
        """
        return not self._journal.syncs and all(put.when is PutMode.CREATE for put in puts)

    def put_small(self, puts: Sequence[SmallPut]) -> list[ETag | LakebedError]:
        """Apply puts of different keys; return for each its ETag or why it failed."""
        with self._locks.hold([key_lock(put.key) for put in puts]):
            prepared = [self._write(put) for put in puts]
            written = [outcome for outcome in prepared if isinstance(outcome, _Written)]
            failure = self._apply(written) if written else None
        return [
            outcome if isinstance(outcome, LakebedError) else failure or _etag(outcome)
            for outcome in prepared
        ]

    def put_file(self, key: str, name: str, fd: int, *, when: PutWhen) -> ETag:
        """Make the scratch file `name` the object `key`. The caller closes `fd`, and discards it on errors."""
        with self._key(key):
            spot = self._files.look(key)
            check_condition(spot, when)
            size_bytes = os.fstat(fd).st_size
            stamp = self._stamps.next_after(spot.found)
            with translated(self._root):
                self._disk.set_mtime(fd, stamp)
                self._disk.sync(fd, Sync.OBJECT_DATA)
                place = self._files.name(spot, source=self._scratch.folder, name=name)
            with translated(self._root, applied=True):
                self._files.folders.sync_up(place.folder, Sync.OBJECT_ENTRY, Sync.FOLDER_ENTRY)
                with self._journal.record([Frame(Kind.DIRECT, key)]):
                    pass
        return etag_of(stamp, size_bytes)

    def delete(self, keys: Sequence[str]) -> None:
        """Remove objects; missing ones are no error."""
        for start in range(0, len(keys), DELETE_BATCH):
            self._delete(keys[start : start + DELETE_BATCH])

    def _delete(self, keys: Sequence[str]) -> None:
        with self._locks.hold(map(key_lock, keys)), translated(self._root):
            present = [(key, found.place) for key in dict.fromkeys(keys) if (found := self._files.find(key))]
            if not present:
                return
            with self._journal.record([Frame(Kind.GONE, key) for key, _ in present]):
                for _, place in present:
                    self._files.remove(place)
        for folder in {place.folder for _, place in present}:
            self._files.folders.prune(folder)

    def _write(self, put: SmallPut) -> _Written | LakebedError:
        try:
            return self._prepare(put)
        except OSError as error:
            return disk_error(error, self._root)
        except LakebedError as error:
            return error

    def _prepare(self, put: SmallPut) -> _Written:
        spot = self._files.look(put.key)
        check_condition(spot, put.when)
        self._files.choose(spot)
        stamp = self._stamps.next_after(spot.found)
        return _Written(put, spot, self._scratch.write(put.data, stamp), stamp)

    def _apply(self, written: Sequence[_Written]) -> LakebedError | None:
        """Record and rename; return why it failed, which is then true of them all."""
        frames = [Frame(Kind.PUT, item.put.key, item.stamp, item.put.data) for item in written]
        try:
            with self._journal.record(frames):
                self._rename(written)
        except OSError as error:
            failure: LakebedError = disk_error(error, self._root)
        except LakebedError as error:
            failure = error
        else:
            return None
        for item in written:
            self._scratch.discard(item.scratch)
        return failure

    def _rename(self, written: Sequence[_Written]) -> None:
        with translated(self._root, applied=True):
            for item in written:
                self._files.name(item.spot, source=self._scratch.folder, name=item.scratch)

    def _key(self, key: str) -> AbstractContextManager[int]:
        return self._locks.hold([key_lock(key)])


def check_condition(spot: Spot, when: PutWhen) -> None:
    """Raise if `when` does not hold for what was found."""
    found = spot.found
    if when is PutMode.CREATE and found is not None:
        raise key_exists(spot.key)
    if isinstance(when, IfMatch) and (found is None or etag_of_file(found.stat) != when.etag):
        raise condition_failed(spot.key)


def _etag(written: _Written) -> ETag:
    return etag_of(written.stamp, len(written.put.data))
