"""One LMDB environment as this process sees it: opened durably, growing by itself, its errors in our words.

Invariants:

- Every commit is synced before it is acknowledged: no NOSYNC, NOMETASYNC, WRITEMAP or MAPASYNC, ever.
- Whoever writes holds the claim, a lock of the file system: LMDB's own lock cannot be asked whether it is free,
  and the event loop must not wait for it. LMDB's lock is still what keeps writers apart.
- The map is replaced only while no transaction of this process is open. Readers hold `_reading`, the
  writer holds `_writing`; whoever resizes holds both, always taken in the order writing, reading.
- Other processes are never stopped: they notice a larger map at their next transaction and adopt it.
- A failed commit wrote nothing, unless LMDB itself lost track (a failed write of its root page); only
  then is the outcome unknown.

Opened in one process, used in that process: LMDB's locks do not survive a fork.
"""

import errno
import os
import threading
from collections.abc import Callable
from os import getpid
from pathlib import Path
from tempfile import TemporaryFile
from types import TracebackType
from typing import Final, TypeAlias, TypeVar

import lmdb

from lakebed.env.clock import Clock
from lakebed.errors import CorruptError, ErrorKind, InvalidInputError, LakebedError, UnavailableError
from lakebed.kv.drivers.lmdb_claim import Claim
from lakebed.kv.drivers.lmdb_keys import SIGNPOST_BYTES
from lakebed.limits import KIB, LMDB_READERS_MAX, LMDB_STALE_READERS_SECONDS

T = TypeVar("T")

Txn: TypeAlias = "lmdb.Transaction[bytes]"
Table: TypeAlias = "lmdb._Database"  # noqa: SLF001  the binding gives its handle no other name

FORMAT_VERSION: Final = 1
_CLAIM: Final = "writer.lock"
_FORMAT_KEY: Final = b"lakebed-kv-format"
_VERSION_KEY: Final = b"version"
_ROWS: Final = b"rows"
_PARTITIONS: Final = b"partitions"
_NUMBER_BYTES: Final = 8

_DISK_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_PROBE_BYTES: Final = 64 * KIB


class Environment:
    """The environment in `folder`, created if it is not there."""

    def __init__(self, folder: Path, *, clock: Clock, map_bytes: int) -> None:
        self.folder = folder
        self._clock = clock
        self._process = getpid()
        self._reading = threading.Lock()
        self._writing = threading.Lock()
        self._readers_checked_at = clock.monotonic()
        self._env = _open(folder, map_bytes)
        self._claim = Claim(folder / _CLAIM)
        try:
            with self._writing, self._claim:
                self._main, self._rows, self._partitions = self._with_room(self._prepare)
        except BaseException:
            self._env.close()
            self._claim.close()
            raise
        self._open = True

    def reading(self) -> "_Reading":
        """Return a context manager whose target is a snapshot of the rows."""
        return _Reading(self)

    def get(self, place: bytes) -> bytes | None:
        """Return the record at `place` now: `reading` and one read, for the most frequent call of all."""
        self.check_usable()
        with self._reading:
            txn = self._begin_read()
            try:
                return txn.get(place)
            except lmdb.Error as error:
                raise self._explain(error) from error
            finally:
                txn.abort()

    def write(self, work: Callable[["Step"], T]) -> T:
        """Return `work(step)` once everything it wrote is on the disk.

        `work` may run more than once (the map grew): it must not change anything but through its step.

        Raises:
            UnavailableError: nothing was written, except if its kind is `OUTCOME_UNKNOWN`.
        """
        self.check_usable()
        with self._writing, self._claim:
            return self._with_room(lambda: self._write_once(work))

    def try_write(self, work: Callable[["Step"], T]) -> T | None:
        """Do as `write` does, or return None at once if somebody else is writing, here or in another process."""
        self.check_usable()
        if not self._writing.acquire(blocking=False):
            return None
        try:
            if not self._claim.try_take():
                return None
            with self._claim:
                return self._with_room(lambda: self._write_once(work))
        finally:
            self._writing.release()

    def clear_stale_readers(self) -> None:
        """Free the places of readers that died, if nobody looked for a while."""
        now = self._clock.monotonic()
        if now - self._readers_checked_at >= LMDB_STALE_READERS_SECONDS:
            self._readers_checked_at = now
            self._env.reader_check()

    def flags(self) -> dict[str, bool]:
        """Return LMDB's flags, so that a test can hold the sync flags to their promise."""
        return {name: bool(value) for name, value in self._env.flags().items()}

    def map_bytes(self) -> int:
        """Return the size of the map of this process."""
        return int(self._env.info()["map_size"])

    def partitions(self) -> list[str]:
        """Return the names of all partitions that were written to and not dropped since."""
        with self.reading() as txn:
            return sorted(name.decode() for _, name in txn.cursor(self._partitions))

    def readers(self) -> str:
        """Return LMDB's table of readers, for people: who keeps old pages from being used again."""
        return self._env.readers()

    def other_processes(self) -> list[int]:
        """Return the processes that have read here and not closed the store since, but for this one."""
        self._env.reader_check()
        # A heading, then a line for each reader that begins with the process.
        pids = {
            int(line.split()[0]) for line in self._env.readers().splitlines() if line.strip()[:1].isdigit()
        }
        return sorted(pids - {self._process})

    def check_usable(self) -> None:
        """Raise unless the environment is open and was opened by this process."""
        if not self._open:
            raise UnavailableError(ErrorKind.STORE_UNAVAILABLE, f"the store in {self.folder} has been closed")
        if getpid() != self._process:
            raise InvalidInputError(
                ErrorKind.UNSUPPORTED,
                f"the store in {self.folder} was opened by process {self._process}; "
                "it is not shared over fork: open it again in this process",
            )

    def close(self) -> None:
        """Close the files. No transaction may be open."""
        with self._writing, self._reading:
            self._open = False
            self._env.close()
            self._claim.close()

    def _with_room(self, write: Callable[[], T]) -> T:
        """Return `write()`, repeated while the map is too small for it; the caller holds `_writing`."""
        while True:
            try:
                return write()
            except lmdb.MapFullError:
                self._resize(self._grow)
            except lmdb.MapResizedError:
                self._resize(self._adopt)
            except lmdb.Error as error:
                raise self._explain_write(error) from error

    def _write_once(self, work: Callable[["Step"], T]) -> T:
        with self._env.begin(db=self._rows, write=True) as txn:
            step = Step(txn, self._partitions, _get_number(txn, self._main, _VERSION_KEY))
            result = work(step)
            if step.changed:
                txn.put(_VERSION_KEY, _number(step.version), db=self._main)
        return result

    def _begin_read(self) -> Txn:
        """Return a snapshot; the caller holds `_reading`, also on return."""
        while True:
            try:
                return self._env.begin(self._rows)
            except lmdb.MapResizedError:
                self._reading.release()
                try:
                    with self._writing:
                        self._resize(self._adopt)
                finally:
                    self._reading.acquire()
            except lmdb.Error as error:
                raise self._explain(error) from error

    def _resize(self, change: Callable[[], None]) -> None:
        """Run `change` while no transaction of this process is open; the caller holds `_writing`."""
        with self._reading:
            try:
                change()
            except lmdb.Error as error:
                raise self._explain(error) from error

    def _adopt(self) -> None:
        self._env.set_mapsize(0)

    def _grow(self) -> None:
        # A dead reader may be all that keeps pages from being used again.
        self._env.reader_check()
        before = self.map_bytes()
        self._env.set_mapsize(0)
        if self.map_bytes() <= before:
            self._env.set_mapsize(before * 2)

    def _prepare(self) -> tuple[Table, Table, Table]:
        """Check the format, writing it if the environment is new; return the main table, rows and partitions."""
        main = self._env.open_db()
        with self._env.begin(write=True) as txn:
            found = _get_number(txn, main, _FORMAT_KEY)
            if found > FORMAT_VERSION:
                raise CorruptError(
                    ErrorKind.NEWER_VERSION,
                    f"the store in {self.folder} has format {found}, this version of lakebed reads up to "
                    f"{FORMAT_VERSION}: upgrade lakebed",
                )
            if not found and txn.stat(main)["entries"]:
                raise CorruptError(
                    ErrorKind.UNREADABLE, f"{self.folder} holds an LMDB environment that is not ours"
                )
            if not found:
                txn.put(_FORMAT_KEY, _number(FORMAT_VERSION), db=main)
            return main, self._env.open_db(_ROWS, txn), self._env.open_db(_PARTITIONS, txn)

    def _explain_write(self, error: lmdb.Error) -> LakebedError:
        if self._lost_track():
            return UnavailableError(
                ErrorKind.OUTCOME_UNKNOWN,
                f"LMDB in {self.folder} could not finish a commit ({error}); restart this process, then read again",
            )
        return self._explain(error)

    def _lost_track(self) -> bool:
        try:
            self._env.begin().abort()
        except lmdb.PanicError:
            return True
        except lmdb.Error:
            return False
        return False

    def _explain(self, error: lmdb.Error) -> LakebedError:
        # LMDB calls it an I/O error when the last pages that still fit were written and the rest was not.
        if error.code in _DISK_FULL or (error.code == errno.EIO and _is_full(self.folder)):
            return UnavailableError(
                ErrorKind.DISK_FULL,
                f"the disk that holds {self.folder} is full and nothing was written; free some space and try again",
            )
        if isinstance(error, (lmdb.CorruptedError, lmdb.PageNotFoundError)):
            return CorruptError(
                ErrorKind.UNREADABLE, f"LMDB in {self.folder} is damaged ({error}); restore it from a backup"
            )
        return UnavailableError(ErrorKind.STORE_UNAVAILABLE, f"LMDB in {self.folder}: {error}")


class Step:
    """What a write transaction offers to the requests that share it, one after another."""

    __slots__ = ("_partitions", "changed", "txn", "version")

    def __init__(self, txn: Txn, partitions: Table, version: int) -> None:
        self.txn = txn
        self._partitions = partitions
        self.version = version
        self.changed = False

    def next_version(self) -> int:
        """Return a version greater than every one before it, in this environment."""
        self.changed = True
        self.version += 1
        return self.version

    def skip_to(self, version: int) -> None:
        """Give only versions above `version` from now on."""
        if version > self.version:
            self.changed = True
            self.version = version

    def remember_partition(self, prefix: bytes, partition: str) -> None:
        """Keep the name behind a prefix, so that the environment can be listed and copied."""
        if self.txn.get(prefix, db=self._partitions) is None:
            self.txn.put(prefix, partition.encode(), db=self._partitions)

    def forget_partition(self, prefix: bytes) -> None:
        self.txn.delete(prefix, db=self._partitions)


class _Reading:
    """Holds the map in place and a snapshot open. A class, because a generator costs more than the read."""

    __slots__ = ("_environment", "_txn")

    def __init__(self, environment: Environment) -> None:
        self._environment = environment

    def __enter__(self) -> Txn:
        environment = self._environment
        environment.check_usable()
        environment._reading.acquire()  # noqa: SLF001  one class in two, for speed
        try:
            self._txn = environment._begin_read()  # noqa: SLF001
        except BaseException:
            environment._reading.release()  # noqa: SLF001
            raise
        return self._txn

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._txn.abort()
        self._environment._reading.release()  # noqa: SLF001
        if isinstance(error, lmdb.Error):
            raise self._environment._explain(error) from error  # noqa: SLF001


def _open(folder: Path, map_bytes: int) -> lmdb.Environment:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise UnavailableError(ErrorKind.STORE_UNAVAILABLE, f"cannot create {folder}: {error}") from error
    try:
        env = lmdb.open(
            str(folder),
            map_size=map_bytes,
            mode=0o600,
            max_dbs=2,
            max_readers=LMDB_READERS_MAX,
            max_spare_txns=1,
            sync=True,
            metasync=True,
            writemap=False,
            map_async=False,
        )
    except (lmdb.InvalidError, lmdb.VersionMismatchError, lmdb.CorruptedError) as error:
        raise CorruptError(
            ErrorKind.UNREADABLE, f"{folder} does not hold an LMDB environment that can be read ({error})"
        ) from error
    except lmdb.Error as error:
        raise UnavailableError(
            ErrorKind.STORE_UNAVAILABLE, f"cannot open LMDB in {folder}: {error}"
        ) from error
    assert env.max_key_size() >= SIGNPOST_BYTES
    _sync_folders(folder)
    return env


def _sync_folders(folder: Path) -> None:
    """Make the folder's own existence durable: LMDB syncs what is in its files, not their names."""
    for each in (folder, folder.parent):
        descriptor = os.open(each, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _is_full(folder: Path) -> bool:
    """Return whether a file that is as long as LMDB's can no longer be made longer here."""
    end = (folder / "data.mdb").stat().st_size
    try:
        with TemporaryFile(dir=folder, buffering=0) as probe:
            probe.seek(end)
            written = probe.write(bytes(_PROBE_BYTES))
            os.fsync(probe.fileno())
    except OSError as error:
        return error.errno in _DISK_FULL
    return written < _PROBE_BYTES


def _number(value: int) -> bytes:
    return value.to_bytes(_NUMBER_BYTES)


def _get_number(txn: Txn, main: Table, key: bytes) -> int:
    return int.from_bytes(txn.get(key, b"", db=main))
