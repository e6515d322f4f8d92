"""Both engines read every address of every range, and hand on few of them twice."""

import asyncio
from collections.abc import Callable, Sequence

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakebed.env.work import InlineWorkers
from lakebed.format.blocks import ENTRY_SCHEMA
from lakebed.format.layout import RANGES_FOLDER, TREE_FILE_ENDING
from lakebed.format.ranges import encode_range
from lakebed.spark.gc import polars_tables, spark_tasks
from lakebed.spark.gc.polars_tables import PolarsTables
from tests.unit.gc_job.lake import NAMESPACE, ManualClock, MemoryStore

Read = Callable[[Sequence[Sequence[int]]], list[str]]

AT_ONCE = 16
# Ranges of one place, as commits that append leave them behind.
ranges = st.lists(
    st.tuples(st.integers(0, 3), st.integers(1, 12)).map(lambda p: range(100 * p[0], 100 * p[0] + p[1])),
    min_size=1,
    max_size=40,
)


def range_file(numbers: Sequence[int]) -> bytes:
    count = len(numbers)
    columns = {
        "key": [f"k{n:04}" for n in numbers],
        "address": [f"data/s/{n}" for n in numbers],
        "checksum": ["c"] * count,
        "size": [1] * count,
        "mtime": [1] * count,
        "content_type": ["t"] * count,
        "metadata": [""] * count,
        "identity": [bytes(16)] * count,
    }
    return encode_range(pa.table([columns[name] for name in ENTRY_SCHEMA.names], schema=ENTRY_SCHEMA))


def stored(written: Sequence[Sequence[int]]) -> tuple[MemoryStore, pa.Table]:
    clock = ManualClock()
    store = MemoryStore(clock)
    names = [f"r{number:03}" for number in range(len(written))]
    for name, numbers in zip(names, written, strict=True):
        store.objects[f"{RANGES_FOLDER}{name}{TREE_FILE_ENDING}"] = (range_file(numbers), clock.now())
    rows = [len(numbers) for numbers in written]
    places = [f"k{numbers[0]:04}" for numbers in written]
    table = pa.table({"name": names, "rows": rows, "min_key": places})
    return store, table.sort_by([("min_key", "ascending"), ("name", "ascending")])


def read_by_task(written: Sequence[Sequence[int]]) -> list[str]:
    store, table = stored(written)
    task = spark_tasks.reading_ranges(store, NAMESPACE)
    batches = task(iter(table.select(["name", "rows"]).to_batches(max_chunksize=3)))
    return [address for batch in batches for address in batch.column("address").to_pylist()]


def read_by_polars(written: Sequence[Sequence[int]]) -> list[str]:
    store, table = stored(written)
    tables = PolarsTables(store, namespace=NAMESPACE, clock=ManualClock(), workers=InlineWorkers())
    frame = pl.from_arrow(table)
    assert isinstance(frame, pl.DataFrame)
    found = asyncio.run(tables.addresses_of(frame.lazy()))
    return found.collect()["address"].to_list()


@pytest.fixture(params=[read_by_task, read_by_polars], ids=["task", "polars"])
def read(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Read:
    monkeypatch.setattr(spark_tasks, "_ADDRESSES_AT_ONCE", AT_ONCE)
    monkeypatch.setattr(polars_tables, "_SPOOLED_ROWS", AT_ONCE)
    found: Read = request.param
    return found


def test_no_address_is_left_out(read: Read) -> None:
    @given(ranges)
    @settings(max_examples=60)
    def check(written: list[range]) -> None:
        assert set(read(written)) == {f"data/s/{n}" for numbers in written for n in numbers}

    check()


def test_many_versions_of_one_range_are_handed_on_as_about_one(read: Read) -> None:
    found = read([range(1 + n % 7) for n in range(100)])

    assert sorted(found) == [f"data/s/{n}" for n in range(7)]
