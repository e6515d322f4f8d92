"""`SparkTables`: the engine for repositories of any size, on one machine or a cluster, without jars.

A table is a `DataFrame`; executors reach the store through obstore, by the tasks of `spark_tasks`. Nothing that
grows with the data comes to the driver.

What a source reads is kept on the executors, with its lineage cut: if a machine is lost, the job fails
and is run again, instead of reading at another time than the protocol thinks. Memory is bounded: rows that are
kept go to disk when others need the room, joins sort and spill where a side is large, and tasks hand on
what they read page by page.

Addresses are subtracted by a hash of 64 bits, which is half the work: where two are alike by accident, an
object is taken for referenced, and its space does not come back. Names of commits and ranges, of
which one too few read would be fatal, are compared whole, and so is what confirms a mark.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
from py4j.protocol import Py4JError
from pyspark import StorageLevel
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as fn

from lakebed.env.clock import Instant
from lakebed.env.work import Workers
from lakebed.format.gc import OBJECTS_FILE, Amount, DataFile, Roots, Share
from lakebed.format.layout import DATA_FOLDER, OWN_FOLDER, SLICE_NAME_WIDTH, TREE_FILE_ENDING
from lakebed.format.parquet import FileKind
from lakebed.spark.gc import decide, spark_tasks
from lakebed.spark.gc.obstore_store import ObstoreStore
from lakebed.spark.gc.ports import Slices
from lakebed.spark.gc.spark_tasks import Task
from lakebed.spark.session import failure_of

R = TypeVar("R")

_ADDRESSES: Final = "address string"
_RANGES: Final = "name string, rows long, min_key string, live boolean"
_FILES: Final = "key string, rows long"
_AMOUNTS: Final = "objects long, bytes long"
_FILE_ROWS: Final = pa.schema([("key", pa.string()), ("rows", pa.int64())])
_TYPES: Final = {pa.string(): "string", pa.int64(): "long", pa.bool_(): "boolean"}
# Hashes do not spread rows evenly: a file is filled up to here, so that what is above the mean still fits in one.
_FILLED: Final = 0.9
_HASH: Final = "address_hash"
_LISTED: Final = OBJECTS_FILE.schema.append(pa.field("plain", pa.bool_()))


@dataclass(slots=True, eq=False)
class Rows:
    """A table, and what is known of it: every job that need not run saves a tenth of a second or more."""

    frame: DataFrame
    kept: bool = False
    """Whether it costs little to go through it again: it is computed but for a filter."""
    amount: Amount | None = None

    @property
    def is_empty(self) -> bool:
        """Whether it is known to hold nothing."""
        return self.amount is not None and self.amount.objects == 0


class SparkTables:
    """Tables of one run."""

    name = "spark"

    def __init__(self, spark: SparkSession, store: ObstoreStore, *, namespace: str, workers: Workers) -> None:
        self._spark = spark
        self._store = store
        self._namespace = namespace.rstrip("/") + "/"
        self._workers = workers
        # Three for each core, or what the cluster's owner thinks is right.
        self._tasks = int(spark.conf.get("spark.sql.shuffle.partitions") or 1)

    async def listing(self, prefixes: Sequence[str]) -> Rows:
        names = pa.table({"prefix": pa.array(prefixes, pa.string())})
        return await self._source(names, spark_tasks.listing(self._store), _LISTED)

    async def read(self, files: Sequence[DataFile], kind: FileKind) -> Rows:
        task = spark_tasks.reading(self._store, kind)
        return await self._source(_file_table(files), task, kind.schema)

    async def ranges_of(self, metaranges: Rows) -> Rows:
        task = spark_tasks.reading_metaranges(self._store)
        wanted = metaranges.frame.filter(fn.col("name") != "").select("name", "live")
        found = wanted.repartition(self._tasks).mapInArrow(task, _RANGES)
        each = found.groupBy("name").agg(
            fn.min("rows").alias("rows"), fn.min("min_key").alias("min_key"), fn.bool_or("live").alias("live")
        )
        return await self.keep(Rows(each))

    async def addresses_of(self, ranges: Rows) -> Rows:
        task = spark_tasks.reading_ranges(self._store, self._namespace)
        # Neighbours come to the same task, which hands on what they share once.
        order = ("min_key", "name")
        wanted = ranges.frame.repartitionByRange(self._tasks, *order).sortWithinPartitions(*order)
        wanted = wanted.select("name", "rows")
        return await self.keep(Rows(wanted.mapInArrow(task, _ADDRESSES)))

    def of(self, table: pa.Table) -> Rows:
        size = pc.sum(table.column("size")).as_py() or 0 if "size" in table.column_names else 0
        return Rows(self._spark.createDataFrame(table), kept=True, amount=Amount(table.num_rows, size))

    def union(self, *tables: Rows) -> Rows:
        first, *others = [table for table in tables if not table.is_empty] or tables[:1]
        for other in others:
            amount = None
            if first.amount is not None and other.amount is not None:
                amount = first.amount + other.amount
            frame = first.frame.unionByName(other.frame)
            first = Rows(frame, kept=first.kept and other.kept, amount=amount)
        return first

    def pick(self, table: Rows, **columns: str) -> Rows:
        frame = table.frame.select(*(fn.col(old).alias(new) for new, old in columns.items()))
        amount = table.amount
        if amount is not None and columns.get("size") != "size":
            amount = Amount(amount.objects)
        return Rows(frame, kept=table.kept, amount=amount)

    def addresses(self, names: Rows, folder: str) -> Rows:
        name = fn.concat(fn.lit(folder), fn.col("name"), fn.lit(TREE_FILE_ENDING))
        return Rows(names.frame.select(name.alias("address")))

    def flagged(self, table: Rows, column: str) -> Rows:
        amount = table.amount if table.is_empty else None
        return Rows(table.frame.filter(fn.col(column)), kept=table.kept, amount=amount)

    def distinct(self, table: Rows) -> Rows:
        return table if table.is_empty else Rows(table.frame.distinct())

    def any_live(self, names: Rows) -> Rows:
        return Rows(names.frame.groupBy("name").agg(fn.bool_or("live").alias("live")))

    def without(self, left: Rows, right: Rows, on: str) -> Rows:
        if left.is_empty or right.is_empty:
            return left
        if on != "address":
            return Rows(left.frame.join(right.frame.select(on), on, "left_anti"))
        hashed = fn.xxhash64("address").alias(_HASH)
        return Rows(
            left.frame.withColumn(_HASH, fn.xxhash64("address"))
            .join(right.frame.select(hashed), _HASH, "left_anti")
            .drop(_HASH)
        )

    def at_most(self, table: Rows, column: str, value: int) -> Rows:
        return Rows(table.frame.filter(fn.col(column) <= value), kept=table.kept)

    def in_newer_slices(self, table: Rows, slices: Slices) -> Rows:
        if table.is_empty:
            return table
        address = fn.col("address")
        name = fn.substring(address, len(DATA_FOLDER) + 1, SLICE_NAME_WIDTH)
        inside = address.rlike(decide.IN_A_SLICE)
        return Rows(table.frame.filter(inside & (name >= slices.floor) & (name < slices.bound)))

    def first_marked(self, objects: Rows, earlier: Rows, now: Instant) -> Rows:
        if earlier.is_empty:
            return Rows(objects.frame.withColumn("first_marked_at", fn.lit(now)), kept=objects.kept)
        known = earlier.frame.select("address", "first_marked_at")
        first = fn.coalesce(fn.col("first_marked_at"), fn.lit(now))
        return Rows(objects.frame.join(known, "address", "left").withColumn("first_marked_at", first))

    def unprotected(self, files: Rows, roots: Roots) -> Rows:
        owners, tokens = zip(*decide.last_tokens(roots), strict=True) if roots.attempts else ((), ())
        last = pa.table({"owner": pa.array(owners, pa.string()), "last": pa.array(tokens, pa.string())})
        held = pa.table({"writer": pa.array(decide.held_writers(roots), pa.string())})
        said = [fn.regexp_extract("address", decide.TREE_FILE, group) for group in (1, 2)]
        named = files.frame.withColumn("writer", fn.concat(*said))
        new, old = decide.ATTEMPTS
        is_new = fn.col("writer").rlike(new)
        old_token = fn.lpad(fn.regexp_extract("writer", old, 2), decide.OLD_TOKEN_WIDTH, "0")
        return Rows(
            named.filter(fn.col("writer") != "")
            .join(self._spark.createDataFrame(held), "writer", "left_anti")
            .withColumn(
                "owner",
                fn.when(is_new, fn.regexp_extract("writer", new, 1)).otherwise(
                    fn.regexp_extract("writer", old, 1)
                ),
            )
            .withColumn("token", fn.when(is_new, fn.regexp_extract("writer", new, 2)).otherwise(old_token))
            .join(self._spark.createDataFrame(last), "owner", "left")
            .filter(fn.col("last").isNull() | (fn.col("token") <= fn.col("last")))
            .select("address", "size", "mtime")
        )

    async def keep(self, table: Rows) -> Rows:
        if table.kept:
            return table
        frame = await self._do(
            lambda: table.frame.localCheckpoint(eager=True, storageLevel=StorageLevel.MEMORY_AND_DISK)
        )
        return Rows(frame, kept=True, amount=table.amount)

    async def amount(self, table: Rows) -> Amount:
        # By a job of its own: what Spark observes on the way can be lost, and a table that is thought empty is subtracted
        # from nothing.
        if table.amount is None:
            size = fn.sum("size") if "size" in table.frame.columns else fn.lit(0)
            counts = table.frame.agg(fn.count("*"), fn.coalesce(size, fn.lit(0)))
            [(objects, total)] = await self._do(counts.collect)
            table.amount = Amount(objects, total)
        return table.amount

    async def shares(self, table: Rows, now: Instant) -> Sequence[Share]:
        groups = (
            table.frame.groupBy(_prefix().alias("prefix"), _age(now).alias("age"))
            .agg(fn.count("*"), fn.sum("size"))
            .orderBy("prefix", "age")
        )
        return [Share(*row) for row in await self._do(groups.collect)]

    async def save(
        self, table: Rows, kind: FileKind, folder: str, *, rows_per_file: int
    ) -> tuple[DataFile, ...]:
        kept = await self.keep(table)
        rows = (await self.amount(kept)).objects
        if not rows:
            return ()
        columns = kind.schema.names
        files = 1 if rows <= rows_per_file else -(-rows // int(rows_per_file * _FILLED))
        rows_to_save = kept.frame.select(*columns)
        parts = rows_to_save.coalesce(1) if files == 1 else rows_to_save.repartition(files, columns[0])
        task = spark_tasks.saving(self._store, kind, folder, rows_per_file=rows_per_file)
        saved = await self._do(parts.mapInArrow(task, _FILES).collect)
        return tuple(sorted((DataFile(*row) for row in saved), key=lambda file: file.key))

    async def sweep(self, chunks: Sequence[DataFile], *, aside: str, rate: float | None) -> Amount:
        if not chunks:
            return Amount()
        # Each task is to keep to its part of the rate, and no more of them run than there are chunks.
        each = None if rate is None else rate / len(chunks)
        task = spark_tasks.sweeping(self._store, aside=aside, rate=each)
        names = self._spark.createDataFrame(_file_table(chunks)).repartition(len(chunks))
        amounts = names.mapInArrow(task, _AMOUNTS).agg(fn.sum("objects"), fn.sum("bytes"))
        objects, size = (await self._do(amounts.collect))[0]
        return Amount(objects, size)

    async def _source(self, names: pa.Table, task: Task, schema: pa.Schema) -> Rows:
        if not names.num_rows:
            return self.of(schema.empty_table())
        given = self._spark.createDataFrame(names).repartition(min(names.num_rows, self._tasks))
        columns = ", ".join(f"{field.name} {_TYPES[field.type]}" for field in schema)
        return await self.keep(Rows(given.mapInArrow(task, columns)))

    async def _do(self, action: Callable[[], R]) -> R:
        """Wait for Spark in a thread, so that the lease is renewed meanwhile."""
        return await self._workers.run(_translated, action)


def _translated(action: Callable[[], R]) -> R:
    try:
        return action()
    except (PySparkException, Py4JError, ConnectionError) as error:
        raise spark_tasks.told_error(str(error)) or failure_of(error) from error


def _file_table(files: Sequence[DataFile]) -> pa.Table:
    return pa.table([[file.key for file in files], [file.rows for file in files]], schema=_FILE_ROWS)


def _prefix() -> Column:
    address = fn.col("address")
    return (
        fn.when(address.startswith(OWN_FOLDER), fn.regexp_extract(address, r"^([^/]+/[^/]+/)", 1))
        .when(address.rlike(decide.IN_A_FOLDER), fn.lit(DATA_FOLDER))
        .otherwise(fn.lit(decide.LOOSE_PREFIX))
    )


def _age(now: Instant) -> Column:
    edges = decide.age_edges(now)
    name, since = edges[0]
    found = fn.when(fn.col("mtime") > since, fn.lit(name))
    for name, since in edges[1:]:
        found = found.when(fn.col("mtime") > since, fn.lit(name))
    return found.otherwise(fn.lit(decide.AGES[-1][0]))
