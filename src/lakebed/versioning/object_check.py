"""`ObjectCheck`: the objects that a repository names are there, with the right size, and if asked the right bytes.

Those in the namespace are not asked for one by one: the folders that they lie in are
listed, several at a time, and joined with what names them.
"""

import asyncio
import hashlib
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeVar

import polars as pl

from lakebed.committed.pipeline import in_order
from lakebed.env.work import Workers
from lakebed.errors import DeniedError, InvalidInputError, NotFoundError, UnavailableError
from lakebed.limits import LIST_PAGE_MAX, SMALL_OBJECT_BYTES_MAX, TRANSFERS_AT_ONCE
from lakebed.objects.external import ExternalAddresses
from lakebed.objects.port import ObjectInfo, ObjectStore
from lakebed.versioning.findings import Finding, FindingKind, Progress, Report, Verified, finding
from lakebed.versioning.references import References, is_external

A = TypeVar("A")

_MD5: Final = re.compile(r"[0-9a-f]{32}")

# Spreading a page over files costs more for each call than for each object.
_LISTED_TOGETHER: Final = 20_000


@dataclass(frozen=True, slots=True)
class _Named:
    """A distinct object and what is said of it; `found` is its size in a listing."""

    address: str
    size: int
    checksum: str
    where: str
    found: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectCheck:
    """Looks at the objects of one repository; `done` is counted up."""

    store: ObjectStore
    external: ExternalAddresses
    workers: Workers
    report: Report
    progress: Progress
    done: Verified

    async def list_folders(self, named: References) -> None:
        """List the folders that named objects lie in."""
        listed, folders = 0, named.folders
        # All listings write to the same files.
        turn = asyncio.Lock()

        async def keep(objects: list[ObjectInfo]) -> None:
            async with turn:
                await self.workers.run(named.have, objects)

        async def one(folder: str) -> None:
            nonlocal listed
            held: list[ObjectInfo] = []
            async for page in self.store.list(folder, page_items_max=LIST_PAGE_MAX):
                held += page
                if len(held) >= _LISTED_TOGETHER:
                    await keep(held)
                    held = []
            await keep(held)
            listed += 1
            self.progress("folders of objects", listed, len(folders))

        await _at_once(_each(folders), one)

    async def check(self, named: References, *, data: bool) -> None:
        """Report the named objects that are not as they are said to be."""
        joined = named.joined()
        while (frame := await self.workers.run(_next, joined)) is not None:
            self.done.objects += frame.height
            self.progress("objects", self.done.objects, None)
            outside = is_external(pl.col("address"))
            wrong = ~outside & (pl.col("found").is_null() | (pl.col("found") != pl.col("size")))
            for each in _rows(frame.filter(wrong)):
                self.report(_wrong_size(each, each.found))
            asked = frame.filter(outside | ~wrong) if data else frame.filter(outside)
            await _at_once(_each(_rows(asked)), partial(self._check_object, data=data))

    async def _check_object(self, each: _Named, *, data: bool) -> None:
        """Ask for one object: one outside, or one whose bytes are wanted."""
        try:
            found = await self._look_at(each, data=data)
        except NotFoundError:
            found = _wrong_size(each, None)
        except (DeniedError, InvalidInputError) as error:
            found = finding(FindingKind.OBJECT_REFUSED, each.where, str(error))
        except UnavailableError as error:
            found = finding(FindingKind.UNREADABLE, each.where, f"{each.address}: {error}")
        if found is not None:
            self.report(found)

    async def _look_at(self, each: _Named, *, data: bool) -> Finding | None:
        """Return what is wrong with an object; raises what its store raises."""
        store, key = await self._place(each.address)
        if each.found is None:
            info = await store.head(key)
            if info is None or info.size_bytes != each.size:
                return _wrong_size(each, info.size_bytes if info is not None else None)
        if not data or _MD5.fullmatch(each.checksum) is None:
            return None
        digest = await self._digest(store, key)
        if digest == each.checksum:
            return None
        what = f"object {each.address} has the checksum {digest} instead of {each.checksum}"
        return finding(FindingKind.OBJECT_DAMAGED, each.where, what)

    async def _place(self, address: str) -> tuple[ObjectStore, str]:
        if "://" not in address:
            return self.store, address
        found = await self.external.resolve(address)
        return found.store, found.key

    async def _digest(self, store: ObjectStore, key: str) -> str:
        digest = hashlib.md5(usedforsecurity=False)
        async for chunk in store.stream(key):
            if len(chunk) <= SMALL_OBJECT_BYTES_MAX:
                digest.update(chunk)  # Done before a thread would have been woken.
            else:
                await self.workers.run(digest.update, chunk)
            self.done.read_bytes += len(chunk)
        self.progress("bytes", self.done.read_bytes, None)
        return digest.hexdigest()


def _wrong_size(each: _Named, found: int | None) -> Finding:
    if found is None:
        return finding(FindingKind.OBJECT_MISSING, each.where, f"object {each.address} is not in the storage")
    what = f"object {each.address} has {found} bytes instead of {each.size}"
    return finding(FindingKind.OBJECT_SIZE, each.where, what)


def _next(frames: Iterator[pl.DataFrame]) -> pl.DataFrame | None:
    return next(frames, None)


def _rows(frame: pl.DataFrame) -> Iterable[_Named]:
    columns = ("address", "size", "checksum", "where", "found")
    return (_Named(*row) for row in frame.select(columns).iter_rows())


async def _each(items: Iterable[A]) -> AsyncGenerator[A, None]:
    for item in items:
        yield item


async def _at_once(items: AsyncGenerator[A, None], work: Callable[[A], Awaitable[None]]) -> None:
    """Do `work` for each item, several at a time."""
    async for _ in in_order(items, work, ahead=TRANSFERS_AT_ONCE):
        pass
