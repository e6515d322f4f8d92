"""Verify a repository: everything that its refs lead to is there, and is what it says it is.

Read-only, and safe beside a running server. The order makes it so:

    1. refs       branches, tags, stashes, then commits
    2. trees      every distinct metarange and range that those reach, read from the store, past every cache
    3. staged     the rows of every layer
    4. objects    the folders that all of those name, listed; then joined with what they name

What is listed comes after what is named, because an object is stored before anything
names it. A layer that was dropped meanwhile has become part of a commit or was thrown
away, so it is left out.

Every file and every object is looked at once, however many commits share it. Objects in
the namespace are not asked for one by one: their folders are listed, several at a time.
"""

import asyncio
import hashlib
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, TypeVar

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from lakebed.committed.names import hash_of, metarange_key, range_key
from lakebed.committed.pipeline import in_order
from lakebed.env.work import Workers
from lakebed.errors import (
    CorruptError,
    DeniedError,
    ErrorKind,
    InvalidInputError,
    LakebedError,
    NotFoundError,
    UnavailableError,
)
from lakebed.format.blocks import empty_changes
from lakebed.format.columns import column
from lakebed.format.metaranges import RangeInfo, decode_metarange, range_infos
from lakebed.format.ranges import decode_range
from lakebed.format.records import decode_branch
from lakebed.format.rows import OPEN_KEY, ROW_PREFIX, decode_rows
from lakebed.kv.port import KVStore, Page, prefix_end
from lakebed.limits import (
    LIST_PAGE_MAX,
    RANGES_AHEAD,
    SCAN_PAGE_ITEMS,
    SMALL_OBJECT_BYTES_MAX,
    TRANSFERS_AT_ONCE,
)
from lakebed.model.branch import Branch
from lakebed.model.ids import RangeId
from lakebed.model.repository import Repository
from lakebed.objects.external import ExternalAddresses
from lakebed.objects.port import ObjectInfo, ObjectStore
from lakebed.refs.keys import branch_key
from lakebed.staging.record import names_token
from lakebed.versioning.findings import Finding, FindingKind, Report, finding
from lakebed.versioning.reachable import Reachable, ReachedTree, StagedLayer, find_reachable
from lakebed.versioning.references import References, is_external

A = TypeVar("A")

Progress = Callable[[str, int, int | None], None]
"""Told what is looked at, how many are done, and of how many, where that is known."""

_MD5: Final = re.compile(r"[0-9a-f]{32}")

# Spreading a page over files costs more for each call than for each object.
_LISTED_TOGETHER: Final = 20_000


@dataclass(slots=True)
class Verified:
    """How much was looked at."""

    branches: int = 0
    tags: int = 0
    commits: int = 0
    trees: int = 0
    ranges: int = 0
    staged: int = 0
    objects: int = 0
    read_bytes: int = 0


@dataclass(frozen=True, slots=True)
class _ReachedRange:
    info: RangeInfo
    where: str
    with_objects: bool


@dataclass(frozen=True, slots=True)
class _Named:
    """A distinct object and what is said of it; `found` is its size in a listing."""

    address: str
    size: int
    checksum: str
    where: str
    found: int | None


@dataclass(slots=True, kw_only=True)
class Verifier:
    """Looks through one repository, once."""

    kv: KVStore
    repo: Repository
    store: ObjectStore
    external: ExternalAddresses
    workers: Workers
    temp: Path
    report: Report
    progress: Progress = field(default=lambda _what, _done, _total: None)
    done: Verified = field(default_factory=Verified)

    async def run(self, *, data: bool = False) -> Verified:
        """Report everything that is wrong; with `data`, also of the bytes of objects."""
        reached = await find_reachable(self.kv, self.repo, self.report)
        self.done.branches, self.done.tags, self.done.commits = (
            reached.branches,
            reached.tags,
            reached.commits,
        )
        with TemporaryDirectory(prefix="verify-", dir=self.temp) as folder, References(Path(folder)) as named:
            await self._check_ranges(await self._check_trees(reached), named)
            for layer in reached.layers:
                await self._check_layer(layer, named)
            await self._list(named)
            await self._check_objects(named, data=data)
        return self.done

    async def _check_trees(self, reached: Reachable) -> dict[RangeId, _ReachedRange]:
        """Read every metarange, and return the ranges that they list."""
        found: dict[RangeId, _ReachedRange] = {}
        total = len(reached.trees)

        async def read(tree: ReachedTree) -> tuple[ReachedTree, pa.Table | None]:
            decode = partial(decode_metarange, expected_hash=hash_of(tree.id))
            kinds = (FindingKind.METARANGE_MISSING, FindingKind.METARANGE_DAMAGED)
            return tree, await self._read(metarange_key(tree.id), tree.where, decode, kinds)

        async for tree, block in in_order(_each(reached.trees.values()), read, ahead=RANGES_AHEAD):
            self.done.trees += 1
            self.progress("trees", self.done.trees, total)
            for info in range_infos(block) if block is not None else ():
                known = found.get(info.id)
                if known is None or (tree.with_objects and not known.with_objects):
                    found[info.id] = _ReachedRange(info, tree.where, tree.with_objects)
        return found

    async def _check_ranges(self, ranges: dict[RangeId, _ReachedRange], named: References) -> None:
        async def read(reached: _ReachedRange) -> tuple[_ReachedRange, pa.Table | None]:
            kinds = (FindingKind.RANGE_MISSING, FindingKind.RANGE_DAMAGED)
            decode = partial(_decode_listed, reached.info)
            return reached, await self._read(range_key(reached.info.id), reached.where, decode, kinds)

        async for reached, block in in_order(_each(ranges.values()), read, ahead=RANGES_AHEAD):
            self.done.ranges += 1
            self.progress("ranges", self.done.ranges, len(ranges))
            if block is not None and reached.with_objects:
                await self.workers.run(named.name, block, reached.where)

    async def _check_layer(self, layer: StagedLayer, named: References) -> None:
        """Read the rows of a layer. One that was dropped on the way is somebody's commit by now."""
        rows, held = 0, list[Page]()
        async for page in self.kv.scan(layer.token, start=ROW_PREFIX, end=prefix_end(ROW_PREFIX)):
            held.append(page)
            if sum(map(len, held)) >= SCAN_PAGE_ITEMS:
                rows += await self._check_rows(held, layer, named)
                held = []
        rows += await self._check_rows(held, layer, named)
        if rows and await self.kv.get(layer.token, OPEN_KEY) is None and await self._is_named(layer):
            what = f"rows of {layer.token} are being dropped although the branch still shows them"
            self.report(finding(FindingKind.ROWS_DAMAGED, layer.where, what))

    async def _check_rows(self, pages: list[Page], layer: StagedLayer, named: References) -> int:
        rows = sum(map(len, pages))
        self.done.staged += rows
        self.progress("staged changes", self.done.staged, None)
        try:
            entries = await self.workers.run(_decode_entries, pages)
        except CorruptError as error:
            self.report(finding(FindingKind.ROWS_DAMAGED, layer.where, str(error)))
        else:
            await self.workers.run(named.name, entries, layer.where)
        return rows

    async def _is_named(self, layer: StagedLayer) -> bool:
        if layer.branch is None:
            return False
        item = await self.kv.get(self.repo.partition, branch_key(layer.branch))
        record = decode_branch(item.value) if item is not None else None
        return isinstance(record, Branch) and names_token(record, layer.token)

    async def _list(self, named: References) -> None:
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

    async def _check_objects(self, named: References, *, data: bool) -> None:
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

    async def _read(
        self,
        key: str,
        where: str,
        decode: Callable[[bytes], pa.Table],
        kinds: tuple[FindingKind, FindingKind],
    ) -> pa.Table | None:
        """Return a file's table, or report what is wrong with it: missing, or damaged."""
        missing, damaged = kinds
        try:
            return await self.workers.run(decode, await self.store.get(key))
        except NotFoundError:
            self.report(finding(missing, where, f"{key} is not in the storage"))
        except CorruptError as error:
            self.report(finding(damaged, where, f"{key}: {error}"))
        except LakebedError as error:
            self.report(finding(FindingKind.UNREADABLE, where, f"{key}: {error}"))
        return None


def _decode_listed(info: RangeInfo, data: bytes) -> pa.Table:
    """Return the rows of a range that is what its metarange says.

    Raises:
        CorruptError: it is not.
    """
    block = decode_range(data, expected_hash=info.hash)
    keys = column(block, "key")
    said = (info.count, info.min_key, info.max_key, info.bytes)
    found = (len(keys), keys[0].as_py(), keys[-1].as_py(), len(data))
    if said != found:
        raise CorruptError(ErrorKind.UNREADABLE, f"its metarange says {said}, the file has {found}")
    return block


def _decode_entries(pages: list[Page]) -> pa.Table:
    """Return the staged rows that are no tombstones: those name nothing."""
    block = pa.concat_tables([empty_changes(), *(decode_rows(*page.spans()) for page in pages)])
    return block.filter(pc.invert(block.column("deleted")))


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
