"""Inspect a namespace against the commits of a dump: what is missing, and what nothing refers to.

    1. objects   list everything below `data/`
    2. trees     read every distinct metarange and range of the commits that stand
    3. join      what 2 names with what 1 lists, on disk, a 64th at a time (`references`)
    4. staged    read the segments that are there: they say at which path an unreferenced object was staged

It reads no database: an adopter inspects before it restores. Every file is read once, however many commits share it.
"""

from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, TypeVar

import polars as pl
import pyarrow as pa

from lakebed.committed.names import metarange_key, range_key
from lakebed.committed.pipeline import in_order
from lakebed.env.work import Workers
from lakebed.errors import CorruptError, NotFoundError
from lakebed.format.adoption import Missing
from lakebed.format.layout import DATA_FOLDER
from lakebed.format.metaranges import RangeInfo, decode_metarange, range_infos
from lakebed.format.ranges import decode_range
from lakebed.format.segments import decode_dataset, decode_footer
from lakebed.format.tree_names import hash_of
from lakebed.limits import LIST_PAGE_MAX, RANGES_AHEAD
from lakebed.model.ids import EMPTY_TREE, MetarangeId, RangeId
from lakebed.model.segments import SEGMENTS_FOLDER
from lakebed.objects.port import ObjectInfo, ObjectStore
from lakebed.versioning.references import References, is_external

A = TypeVar("A")

_LISTED_TOGETHER: Final = 20_000
# More of them help nobody; all are counted.
_MISSING_LISTED: Final = 1000


@dataclass(slots=True)
class Inspected:
    """What was found. `doomed` are trees with a file or object that is about to be deleted."""

    doomed: set[MetarangeId] = field(default_factory=set)
    missing: int = 0
    missing_listed: list[Missing] = field(default_factory=list)

    def miss(self, where: str, what: str) -> None:
        """Count something that is not there."""
        self.missing += 1
        if len(self.missing_listed) < _MISSING_LISTED:
            self.missing_listed.append(Missing(where=where, what=what))


@dataclass(slots=True, kw_only=True)
class Inspection:
    """Looks through one namespace, once."""

    store: ObjectStore
    workers: Workers
    temp: Path
    trees: Mapping[MetarangeId, str]
    """The trees of commits that stand, and where each is met first, for people."""
    gone: AbstractSet[str]
    """Keys that a sweep may be deleting."""
    progress: Callable[[int], None] = lambda _done: None
    found: Inspected = field(default_factory=Inspected, init=False)
    _steps: int = field(default=0, init=False)

    async def run(self, keep: Callable[[pl.DataFrame], object]) -> Inspected:
        """Find what is missing, and hand frames of what nothing refers to (address, size, mtime, path) to `keep`."""
        with TemporaryDirectory(prefix="adopt-", dir=self.temp) as folder, References(Path(folder)) as named:
            await self._list(named)
            await self._read_trees(named)
            joined = named.joined()
            while (frame := await self.workers.run(_next, joined)) is not None:
                lost = frame.filter(~is_external(pl.col("address")) & pl.col("found").is_null())
                for address, where in lost.select("address", "where").iter_rows():
                    self.found.miss(where, f"object {address} is not in the storage")
            staged = await self._staged_paths()
            unnamed = named.unnamed()
            while (frame := await self.workers.run(_next, unnamed)) is not None:
                keep(_with_paths(frame, staged))
        return self.found

    async def _list(self, named: References) -> None:
        held: list[ObjectInfo] = []
        async for page in self.store.list(DATA_FOLDER, page_items_max=LIST_PAGE_MAX):
            held += page
            if len(held) >= _LISTED_TOGETHER:
                await self.workers.run(named.have, held)
                self._step(len(held))
                held = []
        await self.workers.run(named.have, held)

    async def _read_trees(self, named: References) -> None:
        ranges: dict[RangeId, tuple[RangeInfo, str]] = {}
        users: dict[RangeId, set[MetarangeId]] = {}

        async def read(tree: MetarangeId) -> tuple[MetarangeId, pa.Table | None]:
            decode = partial(decode_metarange, expected_hash=hash_of(tree))
            return tree, await self._read(metarange_key(tree), self.trees[tree], decode)

        wanted = [tree for tree in self.trees if tree != EMPTY_TREE]
        async for tree, block in in_order(_each(wanted), read, ahead=RANGES_AHEAD):
            self._step(1)
            if metarange_key(tree) in self.gone:
                self.found.doomed.add(tree)
            for info in range_infos(block) if block is not None else ():
                ranges.setdefault(info.id, (info, self.trees[tree]))
                if self.gone:
                    users.setdefault(info.id, set()).add(tree)

        async def read_range(each: tuple[RangeInfo, str]) -> tuple[RangeInfo, str, pa.Table | None]:
            info, where = each
            decode = partial(decode_range, expected_hash=info.hash)
            return info, where, await self._read(range_key(info.id), where, decode)

        async for info, where, block in in_order(_each(ranges.values()), read_range, ahead=RANGES_AHEAD):
            self._step(1)
            if block is not None:
                await self.workers.run(named.name, block, where)
            if self.gone and (
                range_key(info.id) in self.gone
                or (block is not None and await self.workers.run(_names_any, block, self.gone))
            ):
                self.found.doomed |= users[info.id]

    async def _read(self, key: str, where: str, decode: Callable[[bytes], pa.Table]) -> pa.Table | None:
        try:
            return await self.workers.run(decode, await self.store.get(key))
        except NotFoundError:
            self.found.miss(where, f"{key} is not in the storage")
        except CorruptError as error:
            self.found.miss(where, f"{key} is damaged: {error}")
        return None

    async def _staged_paths(self) -> pl.DataFrame:
        """Return the address and path of what the segments of the old owner hold."""
        frames = [pl.DataFrame(schema={"address": pl.String, "path": pl.String})]
        async for page in self.store.list(SEGMENTS_FOLDER):
            for info in page:
                try:
                    frames.append(await self.workers.run(_staged, await self.store.get(info.key)))
                except (NotFoundError, CorruptError):
                    continue  # What it held is listed without a path.
        return pl.concat(frames).unique("address", keep="last")

    def _step(self, count: int) -> None:
        self._steps += count
        self.progress(self._steps)


def _names_any(block: pa.Table, gone: AbstractSet[str]) -> bool:
    return not gone.isdisjoint(block.column("address").to_pylist())


def _staged(data: bytes) -> pl.DataFrame:
    footer = decode_footer(data, size=len(data))
    frames = [pl.DataFrame(schema={"address": pl.String, "path": pl.String})]
    for name, dataset in footer.datasets.items():
        rows = decode_dataset(footer, name, data[dataset.start : dataset.stop])
        frame = pl.DataFrame(pl.from_arrow(rows.select(["key", "address", "deleted"])))
        frames.append(
            frame.filter(~pl.col("deleted")).select(
                pl.col("address").cast(pl.String), pl.col("key").cast(pl.String).alias("path")
            )
        )
    return pl.concat(frames)


def _with_paths(frame: pl.DataFrame, staged: pl.DataFrame) -> pl.DataFrame:
    return frame.join(staged, on="address", how="left").select(
        "address", pl.col("found").alias("size"), "mtime", pl.col("path").fill_null("")
    )


def _next(frames: Iterator[pl.DataFrame]) -> pl.DataFrame | None:
    return next(frames, None)


async def _each(items: Iterable[A]) -> AsyncGenerator[A, None]:
    for item in items:
        yield item
