"""List objects in the order of their keys' bytes, folder by folder. Blocking.

Only folders that can hold a wanted key are read. Inside a folder a sub-folder
counts as its name and a slash, so that `a-b` comes before `a/x`, as it does
when whole keys are compared.
"""

import os
import stat
from collections.abc import Iterator
from heapq import merge
from typing import TypeAlias

from lakebed.objects.local.etags import etag_of_file, mtime_of_file
from lakebed.objects.local.folders import Folder, Folders
from lakebed.objects.local.names import HIDDEN, STATE, is_hidden_name, key_of
from lakebed.objects.port import ObjectInfo

_Listed: TypeAlias = tuple[str, os.stat_result]


def walk(folders: Folders, *, prefix: str, start_after: str) -> Iterator[ObjectInfo]:
    """Yield the objects whose key begins with `prefix` and is greater than `start_after`."""
    plain = walk_plain(folders, prefix=prefix, start_after=start_after, skipped=STATE)
    hidden = _hidden(folders, HIDDEN, "", prefix.encode().hex(), start_after.encode().hex())
    last = None
    for key, found in merge(plain, hidden, key=lambda listed: listed[0]):
        if key != last:
            yield info_of(key, found)
        last = key


def walk_plain(
    folders: Folders, *, prefix: str, start_after: str, skipped: str | None = None
) -> Iterator[_Listed]:
    """Yield the files under a root as they are; `skipped` is a name directly under it that is not shown."""
    top = prefix[: prefix.rfind("/") + 1]
    if top == "/":
        return  # A folder without a name: no plain key begins like this.
    for key, found in _plain(folders, top, prefix, start_after):
        if skipped is None or not key.startswith(f"{skipped}/"):
            yield key, found


def info_of(key: str, found: os.stat_result) -> ObjectInfo:
    """Return what a file tells about the object."""
    return ObjectInfo(key=key, size_bytes=found.st_size, mtime=mtime_of_file(found), etag=etag_of_file(found))


def _plain(folders: Folders, path: str, prefix: str, start_after: str) -> Iterator[_Listed]:
    """`path` is "" or ends in a slash."""
    folder = folders.find(path.removesuffix("/"))
    for name in _names(folder):
        key = path + name
        if not name.endswith("/"):
            if key.startswith(prefix) and key > start_after:
                folder = folder or folders.find(path.removesuffix("/"))
                yield from _found(folder, name, key)
        elif _may_hold(key, prefix, start_after):
            folder = None  # A deep tree must not keep a descriptor open for each of its levels.
            yield from _plain(folders, key, prefix, start_after)


def _hidden(folders: Folders, path: str, digits: str, prefix: str, start_after: str) -> Iterator[_Listed]:
    """`digits` is what the folders above say of the key; `prefix` and `start_after` are in hex too."""
    folder = folders.find(path)
    for name in _names(folder):
        bare = name.removesuffix("/")
        if not is_hidden_name(bare):
            continue
        whole = digits + bare.removesuffix("+")
        if not name.endswith("/"):
            if whole.startswith(prefix) and whole > start_after:
                yield from _found(folder, name, key_of(whole))
        elif _may_hold(whole, prefix, start_after):
            yield from _hidden(folders, f"{path}/{bare}", whole, prefix, start_after)


def _may_hold(start: str, prefix: str, start_after: str) -> bool:
    """Return whether a wanted key can begin with `start`."""
    return (start.startswith(prefix) or prefix.startswith(start)) and (
        start > start_after or start_after.startswith(start)
    )


def _names(folder: Folder | None) -> list[str]:
    """Return the names of files, and of folders with a slash, in the order of the keys they stand for."""
    names: list[str] = []
    if folder is None:
        return names
    with folder.entries() as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                names.append(entry.name + "/")
            elif entry.is_file(follow_symlinks=False):
                names.append(entry.name)
    return sorted(name for name in names if _is_text(name))


def _is_text(name: str) -> bool:
    """Return whether a name is UTF-8: others are not ours and cannot be keys."""
    return name.isascii() or not any("\udc80" <= letter <= "\udcff" for letter in name)


def _found(folder: Folder | None, name: str, key: str) -> Iterator[_Listed]:
    if folder is None:
        return  # Removed since its names were read.
    try:
        found = os.stat(name, dir_fd=folder.fd, follow_symlinks=False)
    except FileNotFoundError:
        return  # Deleted since its name was read.
    if stat.S_ISREG(found.st_mode):
        yield key, found
