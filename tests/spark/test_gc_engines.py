"""Both engines of garbage collection find the same, keep the same for the next run, and fail alike."""

from pathlib import Path
from random import Random  # noqa: TID251  histories are made by chance

import pyarrow as pa
import pytest
from obstore.store import LocalStore
from pyspark.sql import SparkSession

from lakebed.env.clock import Instant
from lakebed.env.work import InlineWorkers
from lakebed.errors import CorruptError, ErrorKind, NotFoundError, UnavailableError
from lakebed.format.gc import CANDIDATES_FILE, NAMES_FILE, DataFile, decode_table, encode_table
from lakebed.limits import DELETE_BATCH
from lakebed.model.gc import MarkKind
from lakebed.spark.gc.decide import Options
from lakebed.spark.gc.obstore_store import ObstoreStore
from lakebed.spark.gc.protocol import mark, sweep
from lakebed.spark.gc.spark_tables import SparkTables
from tests.property.test_gc_histories import History
from tests.spark.both_tables import FolderLake
from tests.spark.conftest import CLUSTER, LOCAL, on
from tests.unit.gc_job.lake import DAY, HOUR, NAMESPACE, Lake

pytestmark = pytest.mark.timeout(600)

USUAL = Options(min_age_seconds=DAY, grace_seconds=0.0, allow_large=True)
CLEAN = Options(min_age_seconds=DAY, grace_seconds=0.0, allow_large=True, clean=True)


@pytest.fixture
def tables(spark: SparkSession, tmp_path: Path) -> SparkTables:
    store = ObstoreStore(LocalStore(tmp_path, automatic_cleanup=False))
    return SparkTables(spark, store, namespace=NAMESPACE, workers=InlineWorkers())


@on(LOCAL)
async def test_both_mark_the_same_whatever_has_happened(spark: SparkSession, tmp_path: Path) -> None:
    history = History(Random(1))
    lake: Lake = FolderLake(1, tmp_path / "lake", spark)
    lake.rules = 4 * DAY
    history.lake = lake
    kinds = []
    for options in (USUAL, USUAL, CLEAN):
        for _ in range(40):
            history.users()
            history.wait(HOUR)
        history.wait(30 * HOUR)
        kinds.append((await mark(lake.world(), options)).kind)
        await sweep(lake.world(), options)
        lake.check()
    assert kinds == [MarkKind.CLEAN, MarkKind.OPTIMIZED, MarkKind.CLEAN]


@on(LOCAL)
async def test_rows_are_saved_in_few_files_none_of_them_too_long(tables: SparkTables, tmp_path: Path) -> None:
    names = [f"n{i:05}" for i in range(1000)]
    table = tables.of(pa.table({"name": names}))

    files = await tables.save(table, NAMES_FILE, "out/", rows_per_file=300)

    assert sum(file.rows for file in files) == 1000
    assert max(file.rows for file in files) <= 300
    assert len(files) <= 6
    saved = [decode_table(NAMES_FILE, (tmp_path / f.key).read_bytes(), rows=f.rows) for f in files]
    assert sorted(name for each in saved for name in each.column("name").to_pylist()) == names


@on(LOCAL)
async def test_no_rows_are_no_files(tables: SparkTables) -> None:
    assert (
        await tables.save(tables.of(NAMES_FILE.schema.empty_table()), NAMES_FILE, "out/", rows_per_file=9)
        == ()
    )


@on(LOCAL)
async def test_errors_of_executors_are_what_they_are_here(tables: SparkTables, tmp_path: Path) -> None:
    with pytest.raises(NotFoundError) as missing:
        await tables.read([DataFile("gone.parquet", 1)], NAMES_FILE)
    assert missing.value.kind is ErrorKind.KEY_NOT_FOUND
    (tmp_path / "short.parquet").write_bytes(encode_table(NAMES_FILE, pa.table({"name": ["a"]})))
    with pytest.raises(CorruptError, match="holds 1 rows, not 2"):
        await tables.read([DataFile("short.parquet", 2)], NAMES_FILE)


@on(LOCAL)
async def test_a_failure_of_spark_says_what_failed(tables: SparkTables) -> None:
    table = tables.at_most(tables.of(pa.table({"address": ["not a number"]})), "address", 1)
    with pytest.raises(UnavailableError, match=r"a Spark job failed: .*CAST_INVALID_INPUT"):
        await tables.amount(table)


@on(CLUSTER)
async def test_executors_elsewhere_delete_chunks_and_record_them(tables: SparkTables, tmp_path: Path) -> None:
    marked = []
    for chunk in range(2):
        addresses = [f"data/s/{chunk}-{i:05}" for i in range(DELETE_BATCH + 1)]
        (tmp_path / "data/s").mkdir(parents=True, exist_ok=True)
        for address in addresses:
            (tmp_path / address).write_bytes(b"xx")
        columns = {"address": addresses, "size": [2] * len(addresses)}
        times = {name: [Instant(0)] * len(addresses) for name in ("mtime", "first_marked_at")}
        marked += await tables.save(
            tables.of(pa.table({**columns, **times})),
            CANDIDATES_FILE,
            f"r/marked/{chunk}-",
            rows_per_file=9999,
        )
    (tmp_path / "data/s/kept").write_bytes(b"")

    deleted = await tables.sweep(marked, aside="", rate=None)

    assert (deleted.objects, deleted.bytes) == (2 * (DELETE_BATCH + 1), 4 * (DELETE_BATCH + 1))
    assert [path.name for path in (tmp_path / "data/s").iterdir()] == ["kept"]
    assert len(list((tmp_path / "r/deleted").iterdir())) == len(marked)
    again = await tables.sweep(marked, aside="", rate=None)
    assert again == deleted


@on(CLUSTER)
async def test_what_was_listed_is_never_listed_again(tables: SparkTables, tmp_path: Path) -> None:
    (tmp_path / "data/s").mkdir(parents=True)
    (tmp_path / "data/s/old").write_bytes(b"x")
    listed = await tables.listing(["data/s/"])
    (tmp_path / "data/s/new").write_bytes(b"x")

    assert (await tables.amount(listed)).objects == 1
    assert (await tables.amount(tables.union(listed, listed))).objects == 2
