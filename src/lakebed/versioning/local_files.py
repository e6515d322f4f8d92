"""Local files as import sources: which there are, and their size, age and MD5 as entry blocks.

Plain functions on plain values, for worker processes: hashing a million small
files is a few system calls for each, and one interpreter is not enough.
"""

import errno
import hashlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from lakebed.errors import ErrorKind, InvalidInputError, LakebedError, NotFoundError
from lakebed.format.blocks import ENTRY_SCHEMA
from lakebed.format.identity import identity_of
from lakebed.model.entries import CONTENT_TYPE_DEFAULT
from lakebed.objects.local.faults import disk_error

# Large enough that handing a chunk to a process is noise, small enough for progress and cancelling.
CHUNK_FILES = 5_000
_READ_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True)
class FileChunk:
    """Some files of one folder, by name in key order. `relative` is the folder below the source: "" or ending in "/"."""

    folder: str
    relative: str
    names: list[str]


def walk_files(root: str) -> Iterator[FileChunk]:
    """Yield every file below `root` in chunks of one folder each.

    Raises:
        InvalidInputError: there is a symbolic link: what it points at may not be meant to be imported.
        NotFoundError: a folder vanished.
        UnavailableError: a folder cannot be read.
    """
    folders = [""]
    while folders:
        relative = folders.pop()
        folder = os.path.join(root, relative)  # noqa: PTH118  pathlib costs more than the system call here
        try:
            below, names = _list(folder)
        except OSError as error:
            raise _failed(error, folder) from error
        folders += [f"{relative}{name}/" for name in below]
        for start in range(0, len(names), CHUNK_FILES):
            yield FileChunk(folder, relative, names[start : start + CHUNK_FILES])


def hash_files(
    folder: str, names: Sequence[str], *, key_prefix: str, address_prefix: str, known: pa.Table | None = None
) -> pa.Table:
    """Return the files as an entry block: `key_prefix` and `address_prefix` go before each name.

    A file whose address, size and mtime are those of an entry in `known` is not read again.

    Raises:
        NotFoundError: a file vanished.
        UnavailableError: a file cannot be read.
        InvalidInputError: a name is not valid Unicode, or a file has become a symbolic link.
    """
    keys = path_column(key_prefix, names, folder)
    addresses = path_column(address_prefix, names, folder)
    facts = _facts(known)
    sizes, mtimes, checksums, identities = [], [], [], []
    try:
        at = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise _failed(error, folder) from error
    try:
        for name in names:
            try:
                size, mtime, checksum = _read(name, at, facts.get(key_prefix + name))
            except OSError as error:
                raise _failed(error, os.path.join(folder, name)) from error  # noqa: PTH118  as above
            sizes.append(size)
            mtimes.append(mtime)
            checksums.append(checksum)
            identities.append(identity_of(size, checksum, CONTENT_TYPE_DEFAULT, ""))
    finally:
        os.close(at)
    types, metadata = [CONTENT_TYPE_DEFAULT] * len(names), [""] * len(names)
    columns = [keys, addresses, checksums, sizes, mtimes, types, metadata, identities]
    arrays = [pa.array(column, f.type) for column, f in zip(columns, ENTRY_SCHEMA, strict=True)]
    return pa.table(arrays, schema=ENTRY_SCHEMA)


def path_column(prefix: str, names: Sequence[str], folder: str) -> pa.Array:
    """Return `prefix` before each of the names, as text.

    Raises:
        InvalidInputError: one of them is not valid Unicode.
    """
    try:
        return pa.array([prefix + name for name in names], pa.string())
    except UnicodeEncodeError as error:
        raise InvalidInputError(
            ErrorKind.INVALID_PATH,
            f"a file name in {folder!r} is not valid Unicode: {error.object!r}. Rename it, then import again",
        ) from error


def _list(folder: str) -> tuple[list[str], list[str]]:
    """Return the names of the folders and of the files in a folder, the latter in key order."""
    folders: list[str] = []
    names: list[str] = []
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_symlink():
                raise _is_link(entry.path)
            if entry.is_dir(follow_symlinks=False):
                folders.append(entry.name)
            elif entry.is_file(follow_symlinks=False):
                names.append(entry.name)
    names.sort()
    return folders, names


def _failed(error: OSError, path: str) -> LakebedError:
    if error.errno == errno.ENOENT:
        return NotFoundError(
            ErrorKind.OBJECT_NOT_FOUND, f"{path!r} vanished while it was being imported: import again"
        )
    if error.errno == errno.ELOOP:
        return _is_link(path)
    return disk_error(error, repr(path))


def _is_link(path: str) -> LakebedError:
    return InvalidInputError(
        ErrorKind.INVALID_ADDRESS,
        f"{path!r} is a symbolic link: import what it points at by its own path, or remove it",
    )


def _read(name: str, at: int, fact: tuple[int, int, str] | None) -> tuple[int, int, str]:
    if fact is not None:
        stat = os.stat(name, dir_fd=at)
        if (stat.st_size, stat.st_mtime_ns // 1000) == fact[:2]:
            return fact
    handle = os.open(name, os.O_RDONLY | os.O_NOFOLLOW, dir_fd=at)
    try:
        stat = os.fstat(handle)
        return stat.st_size, stat.st_mtime_ns // 1000, _md5(handle, stat.st_size)
    finally:
        os.close(handle)


def _md5(handle: int, size: int) -> str:
    if size < _READ_BYTES:
        # Not more than there is: the kernel would read as fast, but a buffer of a MiB a file costs three times the rest.
        return hashlib.md5(os.read(handle, size), usedforsecurity=False).hexdigest()
    digest = hashlib.md5(usedforsecurity=False)
    while chunk := os.read(handle, _READ_BYTES):
        digest.update(chunk)
    return digest.hexdigest()


def _facts(known: pa.Table | None) -> dict[str, tuple[int, int, str]]:
    if known is None:
        return {}
    columns = (known.column(name).to_pylist() for name in ("key", "size", "mtime", "checksum"))
    return {key: (size, mtime, checksum) for key, size, mtime, checksum in zip(*columns, strict=True)}
