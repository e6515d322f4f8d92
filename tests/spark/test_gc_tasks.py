"""What executors do, done here: from names to rows, page by page, without a Spark."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from obstore.store import LocalStore

from lakebed.env.clock import Clock
from lakebed.errors import CorruptError, ErrorKind, NotFoundError
from lakebed.format.gc import NAMES_FILE, Amount, DataFile, decode_table, encode_table
from lakebed.limits import GC_REQUESTS_AT_ONCE
from lakebed.spark.gc import spark_tasks
from lakebed.spark.gc.obstore_store import ObstoreStore
from lakebed.spark.gc.ports import Store
from lakebed.spark.gc.spark_tasks import Task, told_error
from tests.unit.gc_job.lake import NAMESPACE, Lake

FOLDER = f"{NAMESPACE}/"


@pytest.fixture
def store(tmp_path: Path) -> ObstoreStore:
    return ObstoreStore(LocalStore(tmp_path, automatic_cleanup=False))


def done(task: Task, *batches: dict[str, list[Any]]) -> list[dict[str, Any]]:
    """Return the rows that a task makes of batches."""
    given: Iterator[pa.RecordBatch] = (pa.record_batch(each) for each in batches)
    return [row for batch in task(given) for row in batch.to_pylist()]


def failed(task: Task, *batches: dict[str, list[Any]]) -> Exception:
    """Return what the driver raises when a task fails."""
    with pytest.raises(RuntimeError) as failure:
        done(task, *batches)
    told = told_error(f"Traceback\nRuntimeError: {failure.value}\n  and so on")
    assert told is not None
    return told


def written(tmp_path: Path, names: list[str], content: bytes = b"x") -> None:
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(content)


def test_folders_are_listed_however_many_they_are(store: ObstoreStore, tmp_path: Path) -> None:
    names = [f"data/{folder:03}/{number}" for folder in range(2 * GC_REQUESTS_AT_ONCE) for number in range(2)]
    written(tmp_path, [*names, "data/other"])
    prefixes = sorted({f"{name.rsplit('/', 1)[0]}/" for name in names})
    half = len(prefixes) // 2

    rows = done(spark_tasks.listing(store), {"prefix": prefixes[:half]}, {"prefix": prefixes[half:]})

    assert sorted(row["address"] for row in rows) == names
    assert {(row["size"], row["plain"]) for row in rows} == {(1, True)}


def test_files_are_read_whole_or_not_at_all(store: ObstoreStore, tmp_path: Path) -> None:
    written(tmp_path, ["a", "b"], encode_table(NAMES_FILE, pa.table({"name": ["x", "y"]})))
    reading = spark_tasks.reading(store, NAMES_FILE)
    assert sorted(row["name"] for row in done(reading, {"key": ["a", "b"], "rows": [2, 2]})) == [*"xxyy"]
    short = failed(reading, {"key": ["a", "b"], "rows": [2, 3]})
    assert isinstance(short, CorruptError)
    assert "holds 2 rows, not 3" in str(short)
    missing = failed(reading, {"key": ["a", "none"], "rows": [2, 2]})
    assert isinstance(missing, NotFoundError)
    assert missing.kind is ErrorKind.KEY_NOT_FOUND


def test_addresses_come_once_and_relative(
    store: ObstoreStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake, elsewhere = tree(tmp_path)
    ranges = [name for names in lake.trees.values() for name in names]
    given: dict[str, list[Any]] = {"name": ranges, "rows": [counts(lake)[name] for name in ranges]}

    rows = done(spark_tasks.reading_ranges(store, FOLDER), given)

    expected = ["data/s/0", "data/s/1", "data/s/2", "data/s/spelled-out", elsewhere]
    assert sorted(row["address"] for row in rows) == expected
    # A task that holds as much as it may hands on what it has, and goes on.
    for at_once in (1, 2, 3, 4):
        monkeypatch.setattr(spark_tasks, "_ADDRESSES_AT_ONCE", at_once)
        rows = done(spark_tasks.reading_ranges(store, FOLDER), given)
        assert sorted({row["address"] for row in rows}) == expected
    given["rows"] = [9 for _ in ranges]
    wrong = failed(spark_tasks.reading_ranges(store, FOLDER), given)
    assert isinstance(wrong, CorruptError)
    assert "its metaranges say 9" in str(wrong)


def test_ranges_come_once_and_live_if_one_of_their_trees_is(
    store: ObstoreStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake, _ = tree(tmp_path)
    live = [False, True, False]
    shared = {names[1] for names in lake.trees.values()}
    expected = {
        name: (counts(lake)[name], flag or name in shared)
        for names, flag in zip(lake.trees.values(), live, strict=True)
        for name in names
    }
    for at_once in (1, 1000):
        monkeypatch.setattr(spark_tasks, "_METARANGES_AT_ONCE", at_once)
        rows = done(spark_tasks.reading_metaranges(store), {"name": [*lake.trees], "live": live})
        assert {row["name"]: (row["rows"], row["live"]) for row in rows} == expected
        assert len(rows) == len(expected)
        assert {row["min_key"] for row in rows} == {"a", "b"}


def test_a_metarange_that_is_not_what_its_name_says_is_refused(store: ObstoreStore, tmp_path: Path) -> None:
    lake, _ = tree(tmp_path)
    one, other, _ = (tmp_path / f"_lakebed/metaranges/{name}.parquet" for name in lake.trees)
    one.write_bytes(other.read_bytes())
    given = {"name": [*lake.trees][:1], "live": [True]}
    assert isinstance(failed(spark_tasks.reading_metaranges(store), given), CorruptError)


def test_rows_are_saved_in_pieces_whose_names_no_other_attempt_has(
    store: ObstoreStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"{number:02}" for number in range(10)]
    batches: list[dict[str, list[Any]]] = [{"name": names[:1]}, {"name": names[1:9]}, {"name": names[9:]}]
    saved: list[dict[str, Any]] = []
    for partition, attempt in ((0, 5), (1, 6), (1, 7)):
        monkeypatch.setattr(spark_tasks, "TaskContext", attempted(partition, attempt))
        saved += done(spark_tasks.saving(store, NAMES_FILE, "out/", rows_per_file=3), *batches)

    assert [file["rows"] for file in saved] == [3, 3, 3, 1] * 3
    assert len({file["key"] for file in saved}) == 12
    tables = [
        decode_table(NAMES_FILE, (tmp_path / file["key"]).read_bytes(), rows=file["rows"]) for file in saved
    ]
    assert [name for table in tables for name in table.column("name").to_pylist()] == names * 3


def test_chunks_are_swept_as_they_are_told_to_be(
    store: ObstoreStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    swept = []

    async def sweep_chunk(
        where: Store, chunk: DataFile, *, aside: str, rate: float | None, clock: Clock
    ) -> Amount:
        swept.append((where, chunk, aside, rate))
        return Amount(chunk.rows, 10 * chunk.rows)

    monkeypatch.setattr(spark_tasks, "sweep_chunk", sweep_chunk)
    task = spark_tasks.sweeping(store, aside="run", rate=2.5)

    rows = done(task, {"key": ["a", "b"], "rows": [1, 2]})

    assert rows == [{"objects": 1, "bytes": 10}, {"objects": 2, "bytes": 20}]
    assert swept == [(store, DataFile(key, rows), "run", 2.5) for key, rows in (("a", 1), ("b", 2))]


def test_what_is_not_ours_is_told_as_spark_tells_it() -> None:
    assert told_error("ValueError: the moon is full") is None


def tree(tmp_path: Path) -> tuple[Lake, str]:
    """Write three trees that share a range, and return an address outside of the namespace that it has."""
    lake, elsewhere = Lake(1), f"{NAMESPACE}2/elsewhere"
    for number in range(3):
        entries = {"a": f"data/s/{number}", "b": f"{FOLDER}data/s/spelled-out", "b2": elsewhere}
        lake.commit_tree("main", entries, tuple(lake.commits)[-1:])
    for key, (data, _) in lake.store.objects.items():
        written(tmp_path, [key], data)
    return lake, elsewhere


def counts(lake: Lake) -> dict[str, int]:
    return {name: 1 + at for names in lake.trees.values() for at, name in enumerate(names)}


def attempted(partition: int, attempt: int) -> Any:
    """Return what tells a task which part it works on, and that it is so-many-th attempt of all."""

    class Context:
        @staticmethod
        def get() -> Any:
            return Context

        @staticmethod
        def partitionId() -> int:  # noqa: N802  Spark's name
            return partition

        @staticmethod
        def taskAttemptId() -> int:  # noqa: N802  Spark's name
            return attempt

    return Context
