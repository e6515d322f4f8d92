"""`CacheFolder`: decoded tables as uncompressed Arrow files that every process maps.

A file's name starts with the hash of its rows, or half of it. A process checks that hash when it
first opens a file that it did not write, so a file torn by a power cut is found
out and dropped; hence nothing here is synced. A file appears by rename and goes
by unlink: maps that others hold stay valid. What was opened longest ago goes
first; several processes share the folder, and each looks at all of it.

Losing the cache only costs time, so a disk error here is logged and never raised.
"""

import os
import tempfile
import threading
from pathlib import Path

import pyarrow as pa

from lakebed.format.hashing import rows_hash
from lakebed.format.tree_names import hash_of
from lakebed.telemetry.log import get_logger

log = get_logger(__name__)

_ENDING = ".arrow"
_TEMPORARY = ".tmp"
# Files that this process knows to be whole. Forgetting one costs a check.
_TRUSTED_MAX = 100_000
# After writing this share of the limit, a process looks at the whole folder; so many processes may overshoot by it.
_SWEEP_SHARE = 16


class CacheFolder:
    """Tables by name. Blocking; safe to call from several threads."""

    def __init__(self, folder: Path, *, bytes_max: int) -> None:
        self._folder = folder
        self._bytes_max = bytes_max
        self._trusted: dict[str, None] = {}
        self._unswept = bytes_max
        self._lock = threading.Lock()

    def read(self, name: str) -> pa.Table | None:
        """Map the table, or return None if it is not there; a damaged file is removed."""
        path = self._path(name)
        try:
            table = _map(path)
        except FileNotFoundError:
            return None
        except (OSError, pa.ArrowException) as error:
            self._drop_damaged(name, str(error))
            return None
        if name not in self._trusted:
            if not rows_hash(table, table.column_names).startswith(hash_of(name)):
                self._drop_damaged(name, "its rows do not have the hash in its name")
                return None
            self._trust(name)
        self._touch(path)
        return table

    def write(self, name: str, table: pa.Table) -> bool:
        """Keep the table, and make room. Return whether it worked."""
        path = self._path(name)
        temporary: Path | None = None
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            # A name nobody else takes: processes that share the folder may have one number, in containers of their own.
            handle, made = tempfile.mkstemp(_TEMPORARY, dir=self._folder)
            os.close(handle)
            temporary = Path(made)
            _write(temporary, table)
            temporary.replace(path)
        except OSError as error:
            log.warning("cache_write_failed", file=str(path), error=str(error))
            if temporary is not None:
                _discard(temporary)
            return False
        self._trust(name)
        with self._lock:
            self._unswept += table.nbytes
            due = self._unswept >= self._bytes_max // _SWEEP_SHARE
            if due:
                self._unswept = 0
        if due:
            self._sweep(spare=path)
        return True

    def remove(self, name: str) -> None:
        """Forget the table. Whoever has it mapped keeps it."""
        self._trusted.pop(name, None)
        _discard(self._path(name))

    def _path(self, name: str) -> Path:
        return self._folder / f"{name}{_ENDING}"

    def _drop_damaged(self, name: str, error: str) -> None:
        log.warning("cache_file_dropped", file=name, error=error)
        self.remove(name)

    def _trust(self, name: str) -> None:
        with self._lock:
            self._trusted[name] = None
            if len(self._trusted) > _TRUSTED_MAX:
                del self._trusted[next(iter(self._trusted))]

    def _touch(self, path: Path) -> None:
        try:
            os.utime(path)
        except OSError:
            # Another process made room in the meantime: the map in hand is as good as before.
            return

    def _sweep(self, *, spare: Path) -> None:
        """Remove what was opened longest ago until the folder is within its limit. Left-over temporary files go too."""
        found = []
        for file in self._files():
            try:
                facts = file.stat()
            except FileNotFoundError:
                continue
            found.append((facts.st_mtime_ns, facts.st_size, file))
        excess = sum(size for _, size, _ in found) - self._bytes_max
        for _, size, file in sorted(found):
            if excess <= 0:
                return
            if file != spare:
                self._trusted.pop(file.stem, None)
                _discard(file)
                excess -= size

    def _files(self) -> list[Path]:
        return [file for file in self._folder.iterdir() if file.suffix in {_ENDING, _TEMPORARY}]


def _map(path: Path) -> pa.Table:
    with pa.memory_map(str(path)) as file:
        content = file.read_buffer()
    table = pa.ipc.open_file(content).read_all()
    # Torn bytes may say anything about lengths; nobody may read past the end of the map.
    table.validate()
    return table


def _write(path: Path, table: pa.Table) -> None:
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table.combine_chunks())


def _discard(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        log.warning("cache_remove_failed", file=str(path), error=str(error))
