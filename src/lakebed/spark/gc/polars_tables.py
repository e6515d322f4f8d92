"""`PolarsTables`: the engine for one machine, without a JVM.

A table is a `LazyFrame`. What is read from the store is spooled to a folder once it is large,
and scanned from there, so that joins stream; without a folder everything is in memory, which
is what tests and the simulation want.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import polars as pl
import pyarrow as pa

from lakebed.env.clock import Clock, Instant
from lakebed.env.work import Workers
from lakebed.errors import CorruptError, ErrorKind
from lakebed.format.gc import Amount, DataFile, Roots, Share, decode_table, encode_table
from lakebed.format.layout import (
    DATA_FOLDER,
    METARANGES_FOLDER,
    OWN_FOLDER,
    RANGES_FOLDER,
    SLICE_NAME_WIDTH,
    TREE_FILE_ENDING,
)
from lakebed.format.metaranges import decode_metarange
from lakebed.format.parquet import FileKind
from lakebed.format.ranges import range_addresses
from lakebed.format.tree_names import hash_of
from lakebed.limits import GC_REQUESTS_AT_ONCE
from lakebed.spark.gc import decide
from lakebed.spark.gc.ports import Slices, Store
from lakebed.spark.gc.sweep import sweep_chunk
from lakebed.spark.gc.together import together

_OBJECTS: Final = {"address": pl.String, "size": pl.Int64, "mtime": pl.Int64, "plain": pl.Boolean}
_RANGES: Final = {"name": pl.String, "rows": pl.Int64, "min_key": pl.String, "live": pl.Boolean}
_ADDRESSES: Final = {"address": pl.String}
# Rows in memory before they go to the spool.
_SPOOLED_ROWS: Final = 500_000
# Metaranges whose ranges are held before each is counted once: a thousand trees of ten million objects.
_METARANGES_AT_ONCE: Final = 1000


class PolarsTables:
    """Tables of one run."""

    name = "polars"

    def __init__(
        self,
        store: Store,
        *,
        namespace: str,
        clock: Clock,
        workers: Workers,
        folder: Path | None = None,
        count: Callable[[int], None] = lambda _rows: None,
    ) -> None:
        """`count` hears of rows as they are read, and of objects as they are deleted."""
        self._store = store
        self._namespace = namespace.rstrip("/") + "/"
        self._clock = clock
        self._workers = workers
        self._folder = folder
        self._count = count
        self._spooled = 0

    async def listing(self, prefixes: Sequence[str]) -> pl.LazyFrame:
        gathered = _Gathered(self, _OBJECTS)

        async def one(prefix: str) -> None:
            async for page in self._store.list(prefix):
                self._count(page.num_rows)
                await gathered.add(_frame(decide.with_plainness(page)))

        await together([one(prefix) for prefix in prefixes], GC_REQUESTS_AT_ONCE)
        return await gathered.table()

    async def read(self, files: Sequence[DataFile], kind: FileKind) -> pl.LazyFrame:
        gathered = _Gathered(self, _frame(kind.schema.empty_table()).schema)

        async def one(file: DataFile) -> None:
            data = await self._store.get(file.key)
            table = await self._workers.run(decode_table, kind, data, rows=file.rows)
            self._count(table.num_rows)
            await gathered.add(_frame(table))

        await together([one(file) for file in files], GC_REQUESTS_AT_ONCE)
        return await gathered.table()

    async def ranges_of(self, metaranges: pl.LazyFrame) -> pl.LazyFrame:
        # In order, here and below: a run is then played again call by call.
        wanted = await self._collect(metaranges.filter(pl.col("name") != "").sort("name"))
        found = pl.DataFrame(schema=_RANGES)

        async def one(name: str, live: bool) -> pl.DataFrame:  # noqa: FBT001  a row's two columns
            data = await self._store.get(f"{METARANGES_FOLDER}{name}{TREE_FILE_ENDING}")
            block = await self._workers.run(decode_metarange, data, expected_hash=hash_of(name))
            ranges = block.select(["range", "count", "min_key"]).rename_columns(["name", "rows", "min_key"])
            return _frame(ranges).with_columns(live=pl.lit(live))

        for part in wanted.iter_slices(_METARANGES_AT_ONCE):
            read = await together([one(*row) for row in part.rows()], GC_REQUESTS_AT_ONCE)
            found = await self._workers.run(_each_range_once, [found, *read])
        return found.lazy()

    async def addresses_of(self, ranges: pl.LazyFrame) -> pl.LazyFrame:
        # Neighbours come one after the other, and what they share is kept once.
        wanted = await self._collect(ranges.sort("min_key", "name").select("name", "rows"))
        gathered = _Gathered(self, _ADDRESSES, each_once=True)

        async def one(name: str, rows: int) -> None:
            data = await self._store.get(f"{RANGES_FOLDER}{name}{TREE_FILE_ENDING}")
            addresses = await self._workers.run(range_addresses, data)
            if len(addresses) != rows:
                raise CorruptError(
                    ErrorKind.UNREADABLE,
                    f"range {name} holds {len(addresses)} entries, its metaranges say {rows}",
                )
            self._count(rows)
            await gathered.add(_frame(pa.table({"address": addresses})).select(self._relative()))

        await together([one(*row) for row in wanted.rows()], GC_REQUESTS_AT_ONCE)
        return await gathered.table()

    def of(self, table: pa.Table) -> pl.LazyFrame:
        return _frame(table).lazy()

    def union(self, *tables: pl.LazyFrame) -> pl.LazyFrame:
        return pl.concat(tables, how="diagonal")

    def pick(self, table: pl.LazyFrame, **columns: str) -> pl.LazyFrame:
        return table.select(**{new: pl.col(old) for new, old in columns.items()})

    def addresses(self, names: pl.LazyFrame, folder: str) -> pl.LazyFrame:
        return names.select(address=pl.format(f"{folder}{{}}{TREE_FILE_ENDING}", "name"))

    def flagged(self, table: pl.LazyFrame, column: str) -> pl.LazyFrame:
        return table.filter(pl.col(column))

    def distinct(self, table: pl.LazyFrame) -> pl.LazyFrame:
        return table.unique()

    def any_live(self, names: pl.LazyFrame) -> pl.LazyFrame:
        return names.group_by("name").agg(pl.col("live").any())

    def without(self, left: pl.LazyFrame, right: pl.LazyFrame, on: str) -> pl.LazyFrame:
        return left.join(right.select(on), on=on, how="anti")

    def at_most(self, table: pl.LazyFrame, column: str, value: int) -> pl.LazyFrame:
        return table.filter(pl.col(column) <= value)

    def in_newer_slices(self, table: pl.LazyFrame, slices: Slices) -> pl.LazyFrame:
        address = pl.col("address")
        name = address.str.slice(len(DATA_FOLDER), SLICE_NAME_WIDTH)
        inside = address.str.contains(decide.IN_A_SLICE)
        return table.filter(inside & (name >= slices.floor) & (name < slices.bound))

    def first_marked(self, objects: pl.LazyFrame, earlier: pl.LazyFrame, now: Instant) -> pl.LazyFrame:
        known = earlier.select("address", "first_marked_at")
        return objects.join(known, on="address", how="left").with_columns(
            pl.col("first_marked_at").fill_null(now)
        )

    def unprotected(self, files: pl.LazyFrame, roots: Roots) -> pl.LazyFrame:
        last = pl.LazyFrame(decide.last_tokens(roots), schema=["owner", "last"], orient="row").cast(pl.String)
        writer = pl.col("writer")
        new, old = (writer.str.extract_groups(rule) for rule in decide.ATTEMPTS)
        said = pl.col("address").str.extract_groups(decide.TREE_FILE)
        return (
            files.with_columns(writer=pl.coalesce(said.struct["1"], said.struct["2"]))
            .filter(writer.is_not_null() & ~writer.is_in(decide.held_writers(roots)))
            .with_columns(
                owner=pl.coalesce(new.struct["1"], old.struct["1"]),
                token=pl.coalesce(new.struct["2"], old.struct["2"].str.zfill(decide.OLD_TOKEN_WIDTH)),
            )
            .join(last, on="owner", how="left")
            .filter(pl.col("last").is_null() | (pl.col("token") <= pl.col("last")))
            .select("address", "size", "mtime")
        )

    async def keep(self, table: pl.LazyFrame) -> pl.LazyFrame:
        if self._folder is None:
            return (await self._collect(table)).lazy()
        path = self._next_file()
        await self._workers.run(table.sink_ipc, path, engine="streaming")
        return pl.scan_ipc(path)

    async def amount(self, table: pl.LazyFrame) -> Amount:
        sized = "size" in table.collect_schema()
        total = pl.col("size").sum() if sized else pl.lit(0)
        objects, size = (await self._collect(table.select(pl.len(), total.alias("size")))).row(0)
        return Amount(objects, size)

    async def shares(self, table: pl.LazyFrame, now: Instant) -> Sequence[Share]:
        address, age = pl.col("address"), pl.lit(decide.AGES[-1][0])
        for name, since in reversed(decide.age_edges(now)):
            age = pl.when(pl.col("mtime") > since).then(pl.lit(name)).otherwise(age)
        prefix = (
            pl.when(address.str.starts_with(OWN_FOLDER))
            .then(address.str.extract(r"^([^/]+/[^/]+/)", 1))
            .when(address.str.contains(decide.IN_A_FOLDER))
            .then(pl.lit(DATA_FOLDER))
            .otherwise(pl.lit(decide.LOOSE_PREFIX))
        )
        rows = await self._collect(
            table.group_by(prefix=prefix, age=age).agg(pl.len(), pl.col("size").sum()).sort("prefix", "age")
        )
        return [Share(*row) for row in rows.rows()]

    async def save(
        self, table: pl.LazyFrame, kind: FileKind, folder: str, *, rows_per_file: int
    ) -> tuple[DataFile, ...]:
        # In order: equal runs then save equal files, neighbours compress, and a sweep goes folder by folder.
        rows = await self._collect(table.select(kind.schema.names).sort(kind.schema.names[0]))

        async def one(number: int, part: pl.DataFrame) -> DataFile:
            key = f"{folder}{number:08}.parquet"
            await self._store.put(key, await self._workers.run(_encoded, kind, part))
            return DataFile(key, part.height)

        parts = [one(*numbered) for numbered in enumerate(rows.iter_slices(rows_per_file)) if rows.height]
        return tuple(await together(parts, GC_REQUESTS_AT_ONCE))

    async def sweep(self, chunks: Sequence[DataFile], *, aside: str, rate: float | None) -> Amount:
        deleted = Amount()
        for chunk in chunks:
            deleted += await sweep_chunk(
                self._store, chunk, aside=aside, rate=rate, clock=self._clock, count=self._count
            )
        return deleted

    async def spool(self, frame: pl.DataFrame) -> pl.LazyFrame:
        """Return rows that may be many as a table."""
        if self._folder is None:
            return frame.lazy()
        path = self._next_file()
        await self._workers.run(frame.write_ipc, path)
        return pl.scan_ipc(path)

    async def unique(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Return each row once."""
        return await self._workers.run(frame.unique)

    def _relative(self) -> pl.Expr:
        return pl.col("address").str.strip_prefix(self._namespace)

    async def _collect(self, table: pl.LazyFrame) -> pl.DataFrame:
        found: Any = await self._workers.run(table.collect, engine="streaming")
        assert isinstance(found, pl.DataFrame)
        return found

    def _next_file(self) -> Path:
        assert self._folder is not None
        self._spooled += 1
        return self._folder / f"{self._spooled}.arrow"


class _Gathered:
    """Rows that come in pieces from many tasks; long ones go to the spool on the way.

    With `each_once` rows that come again soon after are dropped; those that come much later are not.
    """

    def __init__(self, tables: PolarsTables, schema: Any, *, each_once: bool = False) -> None:
        self._tables = tables
        self._each_once = each_once
        self._empty = pl.DataFrame(schema=schema)
        self._held: list[pl.DataFrame] = []
        self._rows = 0
        self._parts: list[pl.LazyFrame] = []

    async def add(self, piece: pl.DataFrame) -> None:
        self._held.append(piece)
        self._rows += piece.height
        if self._rows < _SPOOLED_ROWS:
            return
        held, self._held, self._rows = self._held, [], 0
        rows = await self._joined(held)
        if rows.height < _SPOOLED_ROWS // 2:
            self._held.append(rows)
            self._rows += rows.height
            return
        self._parts.append(await self._tables.spool(rows))

    async def table(self) -> pl.LazyFrame:
        rest = await self._joined([self._empty, *self._held])
        return pl.concat([*self._parts, rest.lazy()])

    async def _joined(self, pieces: Sequence[pl.DataFrame]) -> pl.DataFrame:
        rows = pl.concat(pieces, rechunk=True)
        return await self._tables.unique(rows) if self._each_once else rows


def _frame(table: pa.Table) -> pl.DataFrame:
    frame = pl.from_arrow(table)
    assert isinstance(frame, pl.DataFrame)
    return frame


def _encoded(kind: FileKind, rows: pl.DataFrame) -> bytes:
    return encode_table(kind, rows.to_arrow())


def _each_range_once(frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
    return pl.concat(frames).group_by("name").agg(pl.col("rows", "min_key").first(), pl.col("live").any())
