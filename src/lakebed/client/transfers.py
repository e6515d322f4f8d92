"""Whole folders to a branch, back, and from one ref to another, several files at a time.

All of them can be repeated after whatever stopped them: a file that is already
there with the same size and checksum is not sent again. A download appears under its
name only when it is complete and its checksum is right.

One file that fails does not stop the others; the outcomes say which did.
"""

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import Final, TypeVar

from lakebed.client.branch import Branch
from lakebed.client.ref import Ref
from lakebed.client.replies import ObjectInfo
from lakebed.client.uploads import is_md5
from lakebed.errors import CorruptError, ErrorKind, InvalidInputError, LakebedError
from lakebed.limits import PART_BYTES, STREAM_CHUNK_BYTES, TRANSFERS_AT_ONCE

T = TypeVar("T")

OnBytes = Callable[[int], object]
_PART_SUFFIX: Final = ".lakebed-part"
# Files waiting for a free thread, so that a folder of millions is not held in memory.
_WAITING: Final = 4 * TRANSFERS_AT_ONCE


class Done(StrEnum):
    """What became of one file."""

    COPIED = "copied"
    SKIPPED = "skipped"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Outcome:
    """One file of a folder."""

    path: str
    done: Done
    size_bytes: int = 0
    error: str = ""


def upload_folder(
    folder: Path,
    branch: Branch,
    prefix: str,
    *,
    on_bytes: OnBytes = lambda _count: None,
    presigned: bool = False,
) -> Iterator[Outcome]:
    """Upload the files below `folder` to paths that begin with `prefix`; yield an outcome for each."""
    there = {info.path: info for info in branch.objects(prefix)}
    send = branch.upload_presigned if presigned else branch.upload

    def upload(file: Path) -> Outcome:
        path = prefix + file.relative_to(folder).as_posix()
        size = file.stat().st_size
        if (info := there.get(path)) is not None and is_same(file, info):
            on_bytes(size)
            return Outcome(path, Done.SKIPPED, size)
        send(path, file, on_bytes=on_bytes)
        return Outcome(path, Done.COPIED, size)

    return _each(files_below(folder), upload, str)


def download_folder(
    ref: Ref,
    prefix: str,
    folder: Path,
    *,
    on_bytes: OnBytes = lambda _count: None,
    presigned: bool = False,
) -> Iterator[Outcome]:
    """Download the objects whose paths begin with `prefix` to below `folder`; yield an outcome for each."""

    def download(info: ObjectInfo) -> Outcome:
        file = place_below(folder, info.path.removeprefix(prefix))
        if is_same(file, info):
            on_bytes(info.size_bytes)
            return Outcome(info.path, Done.SKIPPED, info.size_bytes)
        file.parent.mkdir(parents=True, exist_ok=True)
        download_file(ref, info, file, on_bytes=on_bytes, presigned=presigned)
        return Outcome(info.path, Done.COPIED, info.size_bytes)

    return _each(ref.objects(prefix), download, lambda info: info.path)


def copy_folder(ref: Ref, prefix: str, branch: Branch, to: str) -> Iterator[Outcome]:
    """Copy the objects whose paths begin with `prefix` to paths of `branch` that begin with `to`; moves no bytes.

    A folder that is copied into itself is copied without what lies at its destination.
    """
    into_itself = ref.name == branch.name and to.startswith(prefix)

    def copy(pair: tuple[ObjectInfo, ObjectInfo | None]) -> Outcome:
        info, there = pair
        path = to + info.path.removeprefix(prefix)
        if there is not None and _is_copy(there, info):
            return Outcome(path, Done.SKIPPED, info.size_bytes)
        branch.copy(info.path, path, source_ref=ref)
        return Outcome(path, Done.COPIED, info.size_bytes)

    found = (info for info in ref.objects(prefix) if not (into_itself and info.path.startswith(to)))
    return _each(_beside(found, prefix, branch.objects(to), to), copy, lambda pair: pair[0].path)


def download_file(
    ref: Ref,
    info: ObjectInfo,
    file: Path,
    *,
    on_bytes: OnBytes = lambda _count: None,
    presigned: bool = False,
) -> None:
    """Download one object; `file` is as it was unless all of it arrived.

    Raises:
        CorruptError: other bytes arrived than the checksum promises.
    """
    part = file.with_name(file.name + _PART_SUFFIX)
    digest = hashlib.md5(usedforsecurity=False)
    raw = ref.reader(info, presigned=presigned).raw
    try:
        with part.open("wb") as output:
            while chunk := raw.read(PART_BYTES):
                digest.update(chunk)
                output.write(chunk)
                on_bytes(len(chunk))
        if is_md5(info.checksum) and digest.hexdigest() != info.checksum:
            raise CorruptError(ErrorKind.CHECKSUM_MISMATCH, f"{info.path} arrived damaged: download it again")
        part.replace(file)
    finally:
        part.unlink(missing_ok=True)


def is_same(file: Path, info: ObjectInfo) -> bool:
    """Return whether a local file has an object's size and checksum."""
    if not file.is_file() or file.stat().st_size != info.size_bytes or not is_md5(info.checksum):
        return False
    digest = hashlib.md5(usedforsecurity=False)
    with file.open("rb") as data:
        while chunk := data.read(STREAM_CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest() == info.checksum


def files_below(folder: Path) -> Iterator[Path]:
    """Yield the files below a folder in a fixed order; links to folders are not followed."""
    for parent, names, files in os.walk(folder):
        names.sort()
        for name in sorted(files):
            if not name.endswith(_PART_SUFFIX):
                yield Path(parent, name)


def place_below(folder: Path, path: str) -> Path:
    """Return where an object goes in a folder.

    Raises:
        InvalidInputError: its path leads out of the folder: whoever wrote it does not decide
            which of our files are overwritten.
    """
    parts = PurePosixPath(path).parts
    if not parts or path.startswith("/") or path.endswith("/") or ".." in parts or "\x00" in path:
        raise InvalidInputError(ErrorKind.INVALID_PATH, f"{path!r} is no path for a file below {folder}")
    return folder.joinpath(*parts)


def _is_copy(one: ObjectInfo, other: ObjectInfo) -> bool:
    """Return whether two objects are the same content to a user."""
    return (one.checksum, one.size_bytes, one.content_type, one.metadata or {}) == (
        other.checksum,
        other.size_bytes,
        other.content_type,
        other.metadata or {},
    )


def _beside(
    sources: Iterable[ObjectInfo], prefix: str, targets: Iterable[ObjectInfo], to: str
) -> Iterator[tuple[ObjectInfo, ObjectInfo | None]]:
    """Yield each source with what lies at its destination. Both come in the order of their paths, so neither is held."""
    waiting = iter(targets)
    target = next(waiting, None)
    for source in sources:
        path = to + source.path.removeprefix(prefix)
        while target is not None and target.path < path:
            target = next(waiting, None)
        yield source, target if target is not None and target.path == path else None


def _each(items: Iterable[T], work: Callable[[T], Outcome], name: Callable[[T], str]) -> Iterator[Outcome]:
    """Yield an outcome for each item, as they come."""
    remaining = iter(items)
    with ThreadPoolExecutor(TRANSFERS_AT_ONCE, thread_name_prefix="lakebed-transfer") as pool:
        try:
            running = {pool.submit(work, item): item for item in islice(remaining, _WAITING)}
            while running:
                ended, _ = wait(running, return_when=FIRST_COMPLETED)
                for future in ended:
                    yield _outcome(future, name(running.pop(future)))
                running |= {pool.submit(work, item): item for item in islice(remaining, len(ended))}
        finally:
            # Whoever stops listening, or is interrupted, does not wait for what has not begun.
            pool.shutdown(wait=True, cancel_futures=True)


def _outcome(future: "Future[Outcome]", path: str) -> Outcome:
    try:
        return future.result()
    except (LakebedError, OSError) as error:
        return Outcome(path, Done.FAILED, error=str(error))
