"""A folder as an object store, for one machine and any number of processes on it.

`data/abc/def` is the file `data/abc/def` under the root, whole or not there.
Puts are durable: small ones through a journal, one sync for many; large ones by
their own syncs. See `lakebed.objects.local` for how, and for the names of keys
that no file system keeps.

Small reads run on the event loop: a file that is in the page cache is there
before a thread could have been woken.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import ParamSpec, TypeVar

from lakebed.env.clock import Clock, SystemClock
from lakebed.env.ids import IdSource, SystemIds
from lakebed.env.work import ThreadWorkers, Workers
from lakebed.errors import DeniedError, ErrorKind, InvalidInputError, UnavailableError
from lakebed.limits import JOURNAL_BYTES_MAX, SMALL_OBJECT_BYTES_MAX, STREAM_CHUNK_BYTES
from lakebed.objects.checks import (
    cannot_sign,
    check_key,
    check_part_number,
    check_parts,
    check_range,
    cut_range,
    key_missing,
)
from lakebed.objects.chunks import gathered, poured
from lakebed.objects.local.changes import SmallPut
from lakebed.objects.local.disk import Disk, RealDisk
from lakebed.objects.local.faults import translated
from lakebed.objects.local.files import Files
from lakebed.objects.local.group import GroupCommit
from lakebed.objects.local.opening import (
    OpenRoot,
    is_root,
    open_local_root,
    remove_empty_folders,
    view_folder,
)
from lakebed.objects.local.reads import read_cached, read_whole
from lakebed.objects.local.spool import Spool
from lakebed.objects.local.uploads import PartSpool
from lakebed.objects.local.walk import info_of, walk
from lakebed.objects.port import (
    ByteRange,
    Capabilities,
    ETag,
    ObjectInfo,
    OpenUpload,
    Part,
    PutMode,
    PutWhen,
)
from lakebed.telemetry.log import get_logger

P = ParamSpec("P")
T = TypeVar("T")

_log = get_logger(__name__)

# Threads of a store that was given none: a few, because more of them only fight for the interpreter.
_THREADS = 4


@dataclass(frozen=True, slots=True)
class _Open:
    root: OpenRoot
    small: GroupCommit


class LocalObjects:
    """An `ObjectStore` in the folder `root`, which the first write makes. It belongs to one event loop.

    A `read_only` one is for folders of others: it leaves nothing there, ever. Below `top` no link is followed, and when
    the store is removed, so are empty folders above it that lie there.
    """

    def __init__(
        self,
        root: Path,
        *,
        fsync: bool = True,
        read_only: bool = False,
        top: Path | None = None,
        disk: Disk | None = None,
        clock: Clock | None = None,
        ids: IdSource | None = None,
        workers: Workers | None = None,
        journal_bytes_max: int = JOURNAL_BYTES_MAX,
    ) -> None:
        self._path = os.path.abspath(root)  # noqa: PTH100  a link that leads to the root stays one
        self._top = os.path.abspath(top) if top is not None else None  # noqa: PTH100  as above
        self._fsync = fsync
        self._read_only = read_only
        self._disk = disk or RealDisk()
        self._clock = clock or SystemClock()
        self._ids = ids or SystemIds()
        self._own: ThreadWorkers | None = None
        if workers is None:
            workers = self._own = ThreadWorkers(_THREADS)
        self._workers = workers
        self._journal_bytes_max = journal_bytes_max
        self._opening = asyncio.Lock()
        self._opened: _Open | None = None
        self._closed = False
        self._rotation: asyncio.Task[None] | None = None
        self.capabilities = Capabilities(if_match=True, sign=False, multipart=True)

    async def put(self, key: str, data: bytes, *, when: PutWhen = PutMode.CREATE) -> ETag:
        check_key(key)
        opened = self._opened or await self._open()
        if len(data) <= SMALL_OBJECT_BYTES_MAX:
            return await opened.small.put(SmallPut(key, bytes(data), when))
        return await self._run(_put_large, opened.root, key, data, when)

    async def put_stream(
        self, key: str, chunks: AsyncIterator[bytes], *, when: PutWhen = PutMode.CREATE
    ) -> ETag:
        check_key(key)
        opened = self._opened or await self._open()
        buffer = bytearray()
        async for chunk in chunks:
            buffer += chunk
            if len(buffer) > SMALL_OBJECT_BYTES_MAX:
                break
        else:
            return await opened.small.put(SmallPut(key, bytes(buffer), when))
        spool = await self._run(Spool, opened.root)
        try:
            await self._run(spool.write, buffer)
            await poured(gathered(chunks, STREAM_CHUNK_BYTES), lambda piece: self._run(spool.write, piece))
            return await self._run(spool.finish, key, when)
        finally:
            await self._run(spool.close)

    async def get(self, key: str, *, byte_range: ByteRange | None = None) -> bytes:
        fd, start, end = await self._read(key, byte_range)
        try:
            data = read_cached(fd, start, end)
            return data if data is not None else await self._run(read_whole, fd, start, end)
        finally:
            os.close(fd)

    async def stream(self, key: str, *, byte_range: ByteRange | None = None) -> AsyncIterator[bytes]:
        fd, start, end = await self._read(key, byte_range)
        try:
            data = read_cached(fd, start, end)
            if data is not None:
                yield data
                return
            for position in range(start, end, STREAM_CHUNK_BYTES):
                yield await self._run(read_whole, fd, position, min(end, position + STREAM_CHUNK_BYTES))
        finally:
            os.close(fd)

    async def head(self, key: str) -> ObjectInfo | None:
        check_key(key)
        files = await self._files()
        with translated(self._path):
            found = files and files.find(key)
        return info_of(key, found.stat) if found else None

    async def list(
        self, prefix: str = "", *, start_after: str = "", page_items_max: int = 1000
    ) -> AsyncIterator[Sequence[ObjectInfo]]:
        files = await self._files()
        if files is None:
            return
        listed = walk(files.folders, prefix=prefix, start_after=start_after)
        while page := await self._run(self._page, listed, page_items_max):
            yield page

    async def delete(self, keys: Sequence[str]) -> None:
        for key in keys:
            check_key(key)
        files = await self._files()
        with translated(self._path):
            is_there = self._opened is not None or (files and any(files.find(key) for key in keys))
        if not is_there:
            return  # And nothing is made to find that out.
        opened = self._opened or await self._open()
        await self._run(opened.root.changes.delete, keys)

    async def copy(self, source: str, target: str) -> ETag:
        check_key(target)
        opened = self._opened or await self._open()
        fd, start, end = await self._read(source, None)
        try:
            if end <= SMALL_OBJECT_BYTES_MAX:
                data = await self._run(read_whole, fd, start, end)
                return await opened.small.put(SmallPut(target, data, PutMode.OVERWRITE))
            return await self._run(_copy_large, opened.root, fd, target)
        finally:
            os.close(fd)

    async def sign(  # the port's shape
        self,
        method: str,  # noqa: ARG002
        key: str,  # noqa: ARG002
        *,
        seconds: int,  # noqa: ARG002
        answer: Mapping[str, str] | None = None,  # noqa: ARG002
    ) -> str:
        raise cannot_sign("local://")

    async def sign_parts(
        self,
        key: str,  # noqa: ARG002  the port's shape
        upload: str,  # noqa: ARG002
        numbers: Sequence[int],  # noqa: ARG002
        *,
        seconds: int,  # noqa: ARG002
    ) -> Sequence[str]:
        raise cannot_sign("local://")

    async def create_upload(self, key: str) -> str:
        check_key(key)
        opened = self._opened or await self._open()
        return await self._run(opened.root.uploads.create, key)

    async def put_part(self, key: str, upload: str, number: int, data: bytes) -> Part:
        check_part_number(number)
        opened = self._opened or await self._open()
        return await self._run(opened.root.uploads.put_part, key, upload, number, data)

    async def put_part_stream(
        self, key: str, upload: str, number: int, chunks: AsyncIterator[bytes], *, size_bytes: int
    ) -> Part:
        check_part_number(number)
        opened = self._opened or await self._open()
        spool = await self._run(PartSpool, opened.root.uploads, key, upload, number)
        try:
            await poured(gathered(chunks, STREAM_CHUNK_BYTES), lambda piece: self._run(spool.write, piece))
            return await self._run(spool.finish, size_bytes)
        finally:
            await self._run(spool.close)

    async def copy_part(
        self, key: str, upload: str, number: int, source: str, *, byte_range: ByteRange | None = None
    ) -> Part:
        check_part_number(number)
        fd, start, end = await self._read(source, byte_range)
        os.close(fd)
        chunks = self.stream(source, byte_range=ByteRange(start, end) if end > start else None)
        return await self.put_part_stream(key, upload, number, chunks, size_bytes=end - start)

    async def complete_upload(self, key: str, upload: str, parts: Sequence[Part]) -> ETag:
        check_parts(parts)
        opened = self._opened or await self._open()
        return await self._run(opened.root.uploads.complete, key, upload, parts)

    async def abort_upload(self, key: str, upload: str) -> None:
        if self._opened is None and not is_root(self._path):
            return
        opened = self._opened or await self._open()
        await self._run(opened.root.uploads.abort, key, upload)

    async def list_uploads(self) -> AsyncIterator[Sequence[OpenUpload]]:
        if self._read_only or (self._opened is None and not is_root(self._path)):
            return
        opened = self._opened or await self._open()
        if found := await self._run(opened.root.uploads.list):
            yield found

    async def remove_if_empty(self) -> bool:
        if is_root(self._path):
            await self._open()
        async with self._opening:
            opened = await self._taken()
            if opened is not None:
                return await self._run(self._remove, opened.root)
            await self._run(remove_empty_folders, self._path, self._top, self._disk)
            return True

    async def close(self) -> None:
        self._closed = True
        async with self._opening:
            opened = await self._taken()
            if opened is not None:
                await self._run(self._close, opened.root)
        if self._own is not None:
            self._own.close()

    async def _taken(self) -> _Open | None:
        """Return what is open, with nothing under way; from here the next call opens anew. `_opening` is held."""
        opened, self._opened = self._opened, None
        if opened is not None:
            await opened.small.drain()
            if self._rotation is not None:
                await asyncio.wait([self._rotation])
        return opened

    async def _files(self) -> Files | None:
        """Return what to read from. A look into a folder that is no store yet leaves nothing there."""
        if self._opened is not None:
            return self._opened.root.files
        if not self._read_only and is_root(self._path):
            return (await self._open()).root.files
        with translated(self._path):
            return view_folder(self._path, self._top, self._disk)

    async def _open(self) -> _Open:
        if self._read_only:
            raise DeniedError(ErrorKind.EXTERNAL_ADDRESS, f"{self._path} is only read, never written")
        async with self._opening:
            if self._closed:
                raise UnavailableError(ErrorKind.STORE_UNAVAILABLE, f"the store at {self._path} is closed")
            if self._opened is None:
                root = await self._run(self._open_root)
                self._opened = _Open(root, GroupCommit(root.changes, self._workers, self._rotate_if_full))
            return self._opened

    def _open_root(self) -> OpenRoot:
        with translated(self._path):
            return open_local_root(
                self._path,
                top=self._top,
                disk=self._disk,
                clock=self._clock,
                ids=self._ids,
                fsync=self._fsync,
                journal_bytes_max=self._journal_bytes_max,
            )

    def _close(self, root: OpenRoot) -> None:
        with translated(self._path):
            root.close()

    def _remove(self, root: OpenRoot) -> bool:
        with translated(self._path):
            return root.remove_if_empty(self._top)

    async def _read(self, key: str, byte_range: ByteRange | None) -> tuple[int, int, int]:
        """Return the descriptor of an object, which the caller closes, and the bytes wanted of it."""
        check_key(key)
        check_range(byte_range)
        files = await self._files()
        with translated(self._path):
            file = files and files.open(key)
        if not file:
            raise key_missing(key)
        fd, found = file
        try:
            start, end = cut_range(byte_range, found.st_size)
        except InvalidInputError:
            os.close(fd)
            raise
        return fd, start, end

    def _page(self, listed: Iterator[ObjectInfo], items_max: int) -> Sequence[ObjectInfo]:
        with translated(self._path):
            return tuple(islice(listed, items_max))

    def _rotate_if_full(self) -> None:
        opened = self._opened
        if opened is None or self._rotation is not None or not opened.root.journal.is_full():
            return
        self._rotation = asyncio.create_task(self._rotate(opened.root))

    async def _rotate(self, root: OpenRoot) -> None:
        try:
            await self._run(root.journal.rotate)
        except OSError as error:
            # Nothing is lost: the journal grows, and the next batch tries again.
            _log.warning("journal_not_rotated", root=self._path, error=str(error))
        finally:
            self._rotation = None

    async def _run(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Run in a thread. A cancelled caller still waits: the thread uses what the caller would let go."""
        task = asyncio.ensure_future(self._workers.run(function, *args, **kwargs))
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            while not task.done():
                with suppress(asyncio.CancelledError):
                    await asyncio.wait([task])
            raise


def _put_large(root: OpenRoot, key: str, data: bytes, when: PutWhen) -> ETag:
    spool = Spool(root)
    try:
        spool.write(data)
        return spool.finish(key, when)
    finally:
        spool.close()


def _copy_large(root: OpenRoot, source: int, target: str) -> ETag:
    spool = Spool(root)
    try:
        spool.append(source)
        return spool.finish(target, PutMode.OVERWRITE)
    finally:
        spool.close()
