"""What executors do for `SparkTables`: functions from names to rows, for `mapInArrow`.

Each opens nothing of its own: the store came pickled, with whatever it needs to reach the namespace. A task
asks for many things at a time, since most of its time is waiting, and hands rows on as they
come, so that it holds a few pages and not what they add up to. An error of ours is wrapped so that the
driver can raise it as what it is: Spark tells only the text.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext

from lakebed.env.clock import SystemClock
from lakebed.errors import CorruptError, ErrorKind, LakebedError
from lakebed.format.gc import DataFile, decode_table, encode_table
from lakebed.format.layout import METARANGES_FOLDER, RANGES_FOLDER, TREE_FILE_ENDING
from lakebed.format.metaranges import decode_metarange
from lakebed.format.parquet import FileKind
from lakebed.format.ranges import range_addresses
from lakebed.format.tree_names import hash_of
from lakebed.limits import GC_REQUESTS_AT_ONCE
from lakebed.spark.gc import decide
from lakebed.spark.gc.ports import Store
from lakebed.spark.gc.sweep import sweep_chunk
from lakebed.spark.gc.together import together

Batches = Iterator[pa.RecordBatch]
Task = Callable[[Batches], Batches]
Row = tuple[Any, ...]
Pages = AsyncIterator[pa.Table]

# Metaranges whose ranges a task holds before it counts each once.
_METARANGES_AT_ONCE: Final = 1000
# Addresses that a task holds before it hands each on once, some tens of bytes long: forty versions of one range.
_ADDRESSES_AT_ONCE: Final = 2_000_000
_RANGE_COLUMNS: Final = ["name", "rows", "min_key", "live"]
_OURS: Final = "lakebed error: "
_TOLD: Final = re.compile(re.escape(_OURS) + r"(\[.*\])")


def listing(store: Store) -> Task:
    """Return the task from prefixes to objects."""

    async def one(row: Row) -> Pages:
        async for page in store.list(row[0]):
            yield decide.with_plainness(page)

    return _each(one)


def reading(store: Store, kind: FileKind) -> Task:
    """Return the task from files (key, rows) to what they hold."""

    async def one(row: Row) -> Pages:
        yield decode_table(kind, await store.get(row[0]), rows=row[1])

    return _each(one)


def reading_ranges(store: Store, namespace: str) -> Task:
    """Return the task from ranges (name, rows) to their addresses, relative to the namespace, few of them twice."""

    async def one(row: Row) -> Pages:
        name, rows = row
        found = range_addresses(await store.get(f"{RANGES_FOLDER}{name}{TREE_FILE_ENDING}"))
        if len(found) != rows:
            raise CorruptError(
                ErrorKind.UNREADABLE, f"range {name} holds {len(found)} entries, its metaranges say {rows}"
            )
        yield pa.table({"address": relative(found, namespace)})

    def work(batches: Batches) -> Batches:
        held: list[pa.Table] = []
        rows = 0
        for page in _gathered(one, batches):
            held.append(page)
            rows += page.num_rows
            if rows < _ADDRESSES_AT_ONCE:
                continue
            once = _distinct(held)
            held, rows = [once], once.num_rows
            if rows >= _ADDRESSES_AT_ONCE // 2:
                yield from once.to_batches()
                held, rows = [], 0
        if held:
            yield from _distinct(held).to_batches()

    return _telling(work)


def relative(addresses: pa.Array, namespace: str) -> pa.Array:
    """Return addresses without the namespace, where they spell it out."""
    whole = pc.starts_with(addresses, namespace)
    if not whole.true_count:
        return addresses
    return pc.if_else(whole, pc.utf8_slice_codeunits(addresses, len(namespace)), addresses)


def reading_metaranges(store: Store) -> Task:
    """Return the task from metaranges (name, live) to their ranges (name, rows, min_key, live), each once in a task."""

    async def one(row: Row) -> Pages:
        name, live = row
        data = await store.get(f"{METARANGES_FOLDER}{name}{TREE_FILE_ENDING}")
        block = decode_metarange(data, expected_hash=hash_of(name))
        flags = pa.repeat(pa.scalar(live), block.num_rows)
        columns = [block.column("range"), block.column("count"), block.column("min_key"), flags]
        yield pa.table(columns, names=_RANGE_COLUMNS)

    def work(batches: Batches) -> Batches:
        held: list[pa.Table] = []
        for page in _gathered(one, batches):
            held.append(page)
            if len(held) > _METARANGES_AT_ONCE:
                held = [_each_once(held)]
        if held:
            yield from _each_once(held).to_batches()

    return _telling(work)


def _distinct(pages: Sequence[pa.Table]) -> pa.Table:
    return pa.table({"address": pc.unique(pa.concat_tables(pages).column("address"))})


def _each_once(pages: Sequence[pa.Table]) -> pa.Table:
    grouped = pa.concat_tables(pages).group_by("name", use_threads=False)
    return grouped.aggregate([("rows", "min"), ("min_key", "min"), ("live", "any")]).rename_columns(
        _RANGE_COLUMNS
    )


def saving(store: Store, kind: FileKind, folder: str, *, rows_per_file: int) -> Task:
    """Return the task that stores its rows in files, and from rows to files (key, rows).

    Names carry the attempt: one that was given up may still be writing, and must not replace what the next one
    has told.
    """

    async def one(number: int, table: pa.Table) -> pa.Table:
        context = TaskContext.get()
        assert context is not None, "it runs on an executor"
        key = f"{folder}{context.partitionId():06}-{number:04}-{context.taskAttemptId()}.parquet"
        await store.put(key, encode_table(kind, table))
        return pa.table({"key": [key], "rows": [table.num_rows]})

    def work(batches: Batches) -> Batches:
        with asyncio.Runner() as runner:
            for number, table in enumerate(_pieces(batches, rows_per_file)):
                yield from runner.run(one(number, table)).to_batches()

    return _telling(work)


def _pieces(batches: Batches, rows_max: int) -> Iterator[pa.Table]:
    held: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        while rows + batch.num_rows > rows_max:
            yield pa.Table.from_batches([*held, batch.slice(0, rows_max - rows)])
            batch, held, rows = batch.slice(rows_max - rows), [], 0  # noqa: PLW2901  what is left of it
        held.append(batch)
        rows += batch.num_rows
    if rows:
        yield pa.Table.from_batches(held)


def sweeping(store: Store, *, aside: str, rate: float | None) -> Task:
    """Return the task that deletes chunks (key, rows), from those to amounts (objects, bytes)."""

    def work(batches: Batches) -> Batches:
        with asyncio.Runner() as runner:
            for key, rows in _rows(batches):
                chunk, clock = DataFile(key, rows), SystemClock()
                deleted = runner.run(sweep_chunk(store, chunk, aside=aside, rate=rate, clock=clock))
                yield pa.record_batch({"objects": [deleted.objects], "bytes": [deleted.bytes]})

    return _telling(work)


def told_error(text: str) -> LakebedError | None:
    """Return the error of ours that a task failed with, if what Spark says of the failure holds one."""
    found = _TOLD.search(text)
    if found is None:
        return None
    name, kind, message = msgspec.json.decode(found[1], type=tuple[str, str, str])
    (error,) = (each for each in LakebedError.__subclasses__() if each.__name__ == name)
    return error(ErrorKind(kind), message)


def _telling(work: Task) -> Task:
    def told(batches: Batches) -> Batches:
        try:
            yield from work(batches)
        except LakebedError as error:
            what = msgspec.json.encode((type(error).__name__, error.kind, str(error))).decode()
            raise RuntimeError(_OURS + what) from error

    return told


def _each(one: Callable[[Row], Pages]) -> Task:
    def work(batches: Batches) -> Batches:
        for page in _gathered(one, batches):
            yield from page.to_batches()

    return _telling(work)


def _rows(batches: Batches) -> Iterator[Row]:
    for batch in batches:
        yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)


def _gathered(one: Callable[[Row], Pages], batches: Batches) -> Iterator[pa.Table]:
    """Yield the pages of all rows as they come; the first failure ends it."""
    pages: asyncio.Queue[pa.Table] = asyncio.Queue(GC_REQUESTS_AT_ONCE)

    async def go(row: Row) -> None:
        async for page in one(row):
            await pages.put(page)

    async def begin() -> asyncio.Task[list[None]]:
        return asyncio.create_task(together([go(row) for row in _rows(batches)], GC_REQUESTS_AT_ONCE))

    async def following(all_of_them: asyncio.Task[list[None]]) -> pa.Table | None:
        getting = asyncio.create_task(_got(pages.get()))
        await asyncio.wait({getting, all_of_them}, return_when=asyncio.FIRST_COMPLETED)
        if all_of_them.done() and not getting.done():
            getting.cancel()
            all_of_them.result()
            return None if pages.empty() else pages.get_nowait()
        return await getting

    with asyncio.Runner() as runner:
        working = runner.run(begin())
        while (page := runner.run(following(working))) is not None:
            yield page


async def _got(getting: Coroutine[Any, Any, pa.Table]) -> pa.Table:
    return await getting
