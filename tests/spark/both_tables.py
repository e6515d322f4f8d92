"""Both engines at once, over a folder: whatever the job asks is computed by each, and must come out the same."""

import os
import shutil
from collections.abc import Iterator, MutableMapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from obstore.store import LocalStore
from pyspark.sql import SparkSession

from lakebed.env.clock import Instant
from lakebed.env.work import InlineWorkers
from lakebed.format.gc import Amount, DataFile, Roots, Share, decode_table
from lakebed.format.parquet import FileKind
from lakebed.spark.gc.obstore_store import ObstoreStore
from lakebed.spark.gc.polars_tables import PolarsTables
from lakebed.spark.gc.ports import Slices, Started, Store
from lakebed.spark.gc.protocol import Tools
from lakebed.spark.gc.spark_tables import SparkTables
from tests.unit.gc_job.lake import Lake

Pair = tuple[Any, Any]
"""A table of Spark, and the same of Polars."""


class FolderObjects(MutableMapping[str, tuple[bytes, Instant]]):
    """Objects in a folder, which other processes see too."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __getitem__(self, key: str) -> tuple[bytes, Instant]:
        path = self.folder / key
        if not path.is_file():
            raise KeyError(key)
        return path.read_bytes(), Instant(path.stat().st_mtime_ns // 1000)

    def __setitem__(self, key: str, value: tuple[bytes, Instant]) -> None:
        path = self.folder / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(value[0])
        os.utime(path, ns=(value[1] * 1000, value[1] * 1000))

    def __delitem__(self, key: str) -> None:
        (self.folder / key).unlink()

    def __iter__(self) -> Iterator[str]:
        found = (path for path in self.folder.rglob("*") if path.is_file())
        return iter(sorted(path.relative_to(self.folder).as_posix() for path in found))

    def __len__(self) -> int:
        return sum(1 for _ in self)


class FolderLake(Lake):
    """A lake whose objects executors can reach, and that is collected by both engines."""

    def __init__(self, seed: int, folder: Path, spark: SparkSession) -> None:
        super().__init__(seed)
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        kept = FolderObjects(folder)
        kept.update(self.store.objects)
        self.store.objects = kept
        self._spark = spark

    def tools(self, started: Started) -> Tools[Any]:
        assert isinstance(self.store.objects, FolderObjects)
        reached = ObstoreStore(LocalStore(self.store.objects.folder, automatic_cleanup=False))
        workers = InlineWorkers()
        spark = SparkTables(self._spark, reached, namespace=started.namespace, workers=workers)
        polars = PolarsTables(self.store, namespace=started.namespace, clock=self.clock, workers=workers)
        return Tools(self.store, BothTables(spark, polars, self.store))


class BothTables:
    """`Tables` of pairs."""

    name = "both"

    def __init__(self, spark: SparkTables, polars: PolarsTables, store: Store) -> None:
        self._spark = spark
        self._polars = polars
        self._store = store

    async def listing(self, prefixes: Sequence[str]) -> Pair:
        return await self._spark.listing(prefixes), await self._polars.listing(prefixes)

    async def read(self, files: Sequence[DataFile], kind: FileKind) -> Pair:
        return await self._spark.read(files, kind), await self._polars.read(files, kind)

    async def ranges_of(self, metaranges: Pair) -> Pair:
        return await self._spark.ranges_of(metaranges[0]), await self._polars.ranges_of(metaranges[1])

    async def addresses_of(self, ranges: Pair) -> Pair:
        # How often an address comes is nobody's promise.
        spark, polars = await self._spark.addresses_of(ranges[0]), await self._polars.addresses_of(ranges[1])
        return self._spark.distinct(spark), self._polars.distinct(polars)

    def of(self, table: pa.Table) -> Pair:
        return self._spark.of(table), self._polars.of(table)

    def union(self, *tables: Pair) -> Pair:
        return self._spark.union(*(t[0] for t in tables)), self._polars.union(*(t[1] for t in tables))

    def pick(self, table: Pair, **columns: str) -> Pair:
        return self._spark.pick(table[0], **columns), self._polars.pick(table[1], **columns)

    def addresses(self, names: Pair, folder: str) -> Pair:
        return self._spark.addresses(names[0], folder), self._polars.addresses(names[1], folder)

    def flagged(self, table: Pair, column: str) -> Pair:
        return self._spark.flagged(table[0], column), self._polars.flagged(table[1], column)

    def distinct(self, table: Pair) -> Pair:
        return self._spark.distinct(table[0]), self._polars.distinct(table[1])

    def any_live(self, names: Pair) -> Pair:
        return self._spark.any_live(names[0]), self._polars.any_live(names[1])

    def without(self, left: Pair, right: Pair, on: str) -> Pair:
        spark = self._spark.without(left[0], right[0], on)
        return spark, self._polars.without(left[1], right[1], on)

    def at_most(self, table: Pair, column: str, value: int) -> Pair:
        return self._spark.at_most(table[0], column, value), self._polars.at_most(table[1], column, value)

    def in_newer_slices(self, table: Pair, slices: Slices) -> Pair:
        spark = self._spark.in_newer_slices(table[0], slices)
        return spark, self._polars.in_newer_slices(table[1], slices)

    def first_marked(self, objects: Pair, earlier: Pair, now: Instant) -> Pair:
        spark = self._spark.first_marked(objects[0], earlier[0], now)
        return spark, self._polars.first_marked(objects[1], earlier[1], now)

    def unprotected(self, files: Pair, roots: Roots) -> Pair:
        return self._spark.unprotected(files[0], roots), self._polars.unprotected(files[1], roots)

    async def keep(self, table: Pair) -> Pair:
        return await self._spark.keep(table[0]), await self._polars.keep(table[1])

    async def amount(self, table: Pair) -> Amount:
        found = await self._spark.amount(table[0])
        assert found == await self._polars.amount(table[1])
        return found

    async def shares(self, table: Pair, now: Instant) -> Sequence[Share]:
        found = await self._spark.shares(table[0], now)
        assert found == await self._polars.shares(table[1], now)
        return found

    async def save(
        self, table: Pair, kind: FileKind, folder: str, *, rows_per_file: int
    ) -> tuple[DataFile, ...]:
        saved = await self._spark.save(table[0], kind, folder, rows_per_file=rows_per_file)
        other = await self._polars.save(table[1], kind, f"{folder}polars/", rows_per_file=rows_per_file)
        assert await self._rows(saved, kind) == await self._rows(other, kind)
        return saved

    async def sweep(self, chunks: Sequence[DataFile], *, aside: str, rate: float | None) -> Amount:
        return await self._spark.sweep(chunks, aside=aside, rate=rate)

    async def _rows(self, files: Sequence[DataFile], kind: FileKind) -> list[tuple[Any, ...]]:
        found: list[tuple[Any, ...]] = []
        for file in files:
            table = decode_table(kind, await self._store.get(file.key), rows=file.rows)
            found += zip(*(column.to_pylist() for column in table.columns), strict=True)
        return sorted(found)
