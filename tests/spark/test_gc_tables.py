"""Every sentence of `Tables`, for both engines: what a table holds afterwards is spelled out."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from obstore.store import LocalStore
from pyspark.sql import SparkSession

from lakebed.env.clock import SECOND, Instant, SystemClock
from lakebed.env.work import InlineWorkers
from lakebed.errors import CorruptError, ErrorKind, NotFoundError, UnavailableError
from lakebed.format.gc import (
    CANDIDATES_FILE,
    NAMES_FILE,
    OBJECTS_FILE,
    Amount,
    Attempts,
    DataFile,
    Roots,
    Share,
    decode_table,
    encode_table,
)
from lakebed.format.layout import METARANGES_FOLDER, RANGES_FOLDER
from lakebed.format.parquet import FileKind
from lakebed.format.tree_names import tree_file_name
from lakebed.model.ids import RepoUid
from lakebed.spark.gc import spark_tasks
from lakebed.spark.gc.obstore_store import ObstoreStore
from lakebed.spark.gc.polars_tables import PolarsTables
from lakebed.spark.gc.ports import Slices, Tables
from lakebed.spark.gc.spark_tables import SparkTables
from tests.spark.conftest import LOCAL, on
from tests.unit.gc_job.lake import NAMESPACE, Lake

pytestmark = pytest.mark.timeout(600)

Rows = list[tuple[Any, ...]]
DAY = 24 * 3600 * SECOND
SOME = "0" * 64


def named(nonce: str) -> list[str]:
    """Names of files that an operation has written: as they are now, and as they were in earlier versions."""
    return [tree_file_name(SOME, nonce), f"{SOME}-{nonce}"]


class TablesSuite:
    """Inherit, and add `tables` over the folder `tmp_path` and how its tables are looked at."""

    @pytest.fixture
    def tables(self, tmp_path: Path) -> Tables[Any]:
        raise NotImplementedError

    def look(self, table: Any) -> pa.Table:
        raise NotImplementedError

    def rows(self, table: Any, *columns: str) -> Rows:
        found = self.look(table).select(list(columns))
        return sorted(zip(*(column.to_pylist() for column in found.columns), strict=True))

    async def test_a_listing_is_what_lay_below_the_folders_then(
        self, tables: Tables[Any], tmp_path: Path
    ) -> None:
        for name in ("data/s/one", "data/s/deep/two", "data/t/three", "data/t/odd name", "data/other/four"):
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_bytes(b"x" * len(name))
        listed = await tables.listing(["data/s/", "data/t/"])
        (tmp_path / "data/s/new").write_bytes(b"x")

        expected = [("data/s/deep/two", 15, True), ("data/s/one", 10, True)]
        odd = [("data/t/odd name", 15, False), ("data/t/three", 12, True)]
        assert self.rows(listed, "address", "size", "plain") == expected + odd
        assert (await tables.amount(tables.union(listed, listed))) == Amount(8, 104)
        times = {time for (time,) in self.rows(listed, "mtime")}
        assert min(times) == (tmp_path / "data/s/one").stat().st_mtime_ns // 1000
        assert await tables.amount(await tables.listing([])) == Amount()

    async def test_files_are_read_whole_or_not_at_all(self, tables: Tables[Any], tmp_path: Path) -> None:
        files = [stored(tmp_path, f"{name}.parquet", NAMES_FILE, name=[name, name]) for name in "ab"]
        read = await tables.read(files, NAMES_FILE)
        (tmp_path / "a.parquet").unlink()

        assert self.rows(read, "name") == [("a",), ("a",), ("b",), ("b",)]
        assert await tables.amount(await tables.read([], NAMES_FILE)) == Amount()
        with pytest.raises(NotFoundError) as missing:
            await tables.read(files, NAMES_FILE)
        assert missing.value.kind is ErrorKind.KEY_NOT_FOUND
        with pytest.raises(CorruptError, match="holds 2 rows, not 3"):
            await tables.read([DataFile("b.parquet", 3)], NAMES_FILE)

    async def test_ranges_and_their_addresses_come_once(self, tables: Tables[Any], tmp_path: Path) -> None:
        lake, elsewhere = Lake(1), f"{NAMESPACE}2/elsewhere"
        # So many that no task has all of them.
        for number in range(6):
            entries = {"a": f"data/s/{number}", "b": f"{NAMESPACE}/data/s/spelled-out", "b2": elsewhere}
            lake.commit_tree("main", entries, tuple(lake.commits)[-1:])
        for key, (data, _) in lake.store.objects.items():
            (tmp_path / key).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / key).write_bytes(data)
        own, (shared,) = [names[0] for names in lake.trees.values()], {n[1] for n in lake.trees.values()}
        names = pa.table({"name": [*lake.trees, ""], "live": [number == 0 for number in range(7)]})

        ranges = await tables.ranges_of(tables.of(names))

        expected = [*((name, 1, name == own[0]) for name in own), (shared, 2, True)]
        assert self.rows(ranges, "name", "rows", "live") == sorted(expected)
        addresses = await tables.addresses_of(ranges)
        both = {("data/s/spelled-out",), (elsewhere,)}
        assert {*self.rows(addresses, "address")} == {*((f"data/s/{number}",) for number in range(6))} | both
        only = await tables.addresses_of(tables.flagged(ranges, "live"))
        assert {*self.rows(only, "address")} == {("data/s/0",)} | both
        wrong = pa.table({"name": [shared], "rows": [3], "min_key": ["b"], "live": [True]})
        with pytest.raises(CorruptError, match="holds 2 entries, its metaranges say 3"):
            await tables.addresses_of(tables.of(wrong))
        damaged = pa.table({"name": [f"{SOME}-n"], "live": [True]})
        with pytest.raises(NotFoundError):
            await tables.ranges_of(tables.of(damaged))

    async def test_tables_are_joined_by_the_names_of_columns(self, tables: Tables[Any]) -> None:
        left, none = tables.of(pa.table({"name": ["a"], "live": [True]})), of_nothing(tables)
        right = tables.of(pa.table({"live": [False, False], "name": ["b", "b"]}))

        joined = tables.union(none, left, right, left)

        assert self.rows(joined, "name", "live") == [
            ("a", True),
            ("a", True),
            ("b", False),
            ("b", False),
        ]
        assert (await tables.amount(joined)).objects == 4
        assert await tables.amount(tables.union(none, none)) == Amount()
        assert (await tables.amount(tables.pick(joined, renamed="name"))).objects == 4
        assert self.rows(tables.pick(joined, renamed="name"), "renamed") == [("a",), ("a",), ("b",), ("b",)]
        assert self.rows(tables.distinct(joined), "name", "live") == [("a", True), ("b", False)]
        assert await tables.amount(tables.distinct(tables.pick(none, other="name"))) == Amount()
        assert self.rows(tables.flagged(joined, "live"), "name") == [("a",), ("a",)]

    async def test_a_name_is_live_if_one_of_its_rows_is(self, tables: Tables[Any]) -> None:
        names = {"name": ["a", "a", "b", "b", "c"], "live": [False, True, False, False, True]}
        found = tables.any_live(tables.of(pa.table(names)))
        assert self.rows(found, "name", "live") == [("a", True), ("b", False), ("c", True)]
        folder = self.rows(tables.addresses(found, RANGES_FOLDER), "address")
        assert folder == [(f"_lakebed/ranges/{name}.parquet",) for name in "abc"]

    @pytest.mark.parametrize("on", ["address", "name"])
    async def test_what_is_subtracted_is_gone_and_the_rest_is_as_it_was(
        self, tables: Tables[Any], on: str
    ) -> None:
        left = tables.of(pa.table({on: ["a", "b", "b", "c"], "size": [1, 2, 3, 4]}))
        right = tables.of(pa.table({"other": [1, 1, 2], on: ["c", "c", "a"]}))
        none = tables.of(pa.table({on: pa.array([], pa.string()), "size": pa.array([], pa.int64())}))

        found = tables.without(left, right, on)

        assert self.look(found).column_names == [on, "size"]
        assert self.rows(found, on, "size") == [("b", 2), ("b", 3)]
        assert await tables.amount(found) == Amount(2, 5)
        assert await tables.amount(tables.without(left, none, on)) == Amount(4, 10)
        assert await tables.amount(tables.without(none, right, on)) == Amount()

    async def test_numbers_are_compared_with_the_bound_in_it(self, tables: Tables[Any]) -> None:
        numbers = tables.of(pa.table({"size": [4, 5, 6]}))
        assert self.rows(tables.at_most(numbers, "size", 5), "size") == [(4,), (5,)]

    async def test_newer_slices_are_those_between_floor_and_bound(self, tables: Tables[Any]) -> None:
        names = [f"{letter * 20}" for letter in "abcde"]
        inside = [f"data/{name}/x" for name in names]
        others = ["data/c", "data/cccc/x", f"other/{names[2]}/x", f"data/{names[2]}", f"data/{names[2]}w/x"]
        table = tables.of(pa.table({"address": [*inside, *others]}))

        found = tables.in_newer_slices(table, Slices(bound=names[3], floor=names[1]))

        assert self.rows(found, "address") == [(inside[1],), (inside[2],)]
        none = tables.pick(of_nothing(tables), address="name")
        assert (
            await tables.amount(tables.in_newer_slices(none, Slices(bound=names[3], floor=names[1])))
            == Amount()
        )

    async def test_a_candidate_keeps_the_time_of_its_first_mark(self, tables: Tables[Any]) -> None:
        objects = tables.of(pa.table({"address": ["a", "b"], "size": [1, 2], "mtime": [3, 4]}))
        earlier = {"address": ["b", "c"], "size": [9, 9], "mtime": [9, 9], "first_marked_at": [50, 60]}
        columns = CANDIDATES_FILE.schema.names

        found = tables.first_marked(objects, tables.of(pa.table(earlier)), Instant(100))

        assert self.rows(found, *columns) == [("a", 1, 3, 100), ("b", 2, 4, 50)]
        nothing = tables.of(CANDIDATES_FILE.schema.empty_table())
        anew = tables.first_marked(objects, nothing, Instant(100))
        assert self.rows(anew, *columns) == [("a", 1, 3, 100), ("b", 2, 4, 100)]

    async def test_files_that_may_still_be_written_are_protected(self, tables: Tables[Any]) -> None:
        roots = Roots(
            uid=RepoUid("u"),
            commits=(),
            nonces=("pending",),
            attempts=(Attempts("live", 7, (3,)), Attempts("other-1", 0), Attempts("old", 2**59)),
        )
        left = ("left", "live-7", "live-6", "dead-9", "live-x", "livelong-8", f"old-{2**59}")
        held = ("pending", "live-8", "live-10", f"live-{2**40}", "live-3", "other-1-1", f"old-{2**59 + 1}")
        gone = [name for nonce in left for name in named(nonce)]
        kept = [name for nonce in held for name in named(nonce)]
        odd = [f"{RANGES_FOLDER}x.parquet", f"{RANGES_FOLDER}{SOME}-left", f"data/{SOME}-left.parquet"]
        files = [f"{folder}{name}.parquet" for name in gone for folder in (RANGES_FOLDER, METARANGES_FOLDER)]
        addresses = [*files, *(f"{RANGES_FOLDER}{name}.parquet" for name in kept), *odd]
        numbers = [*range(len(addresses))]

        found = tables.unprotected(
            tables.of(pa.table({"address": addresses, "size": numbers, "mtime": numbers})), roots
        )

        expected = sorted((address, numbers[at], numbers[at]) for at, address in enumerate(files))
        assert self.rows(found, "address", "size", "mtime") == expected
        bare = Roots(uid=RepoUid("u"), commits=())
        everything = tables.of(pa.table({"address": addresses, "size": numbers, "mtime": numbers}))
        assert await tables.amount(tables.unprotected(everything, bare)) == Amount(42, sum(range(42)))

    async def test_objects_are_counted_by_prefix_and_age(self, tables: Tables[Any]) -> None:
        now = Instant(1000 * DAY)
        ages = [0, DAY - 1, DAY, 8 * DAY, 31 * DAY, 91 * DAY, 365 * DAY]
        names = [f"data/s/{n}" for n in range(len(ages))]
        more = ["data/loose", "loose", "_lakebed/ranges/x", "_lakebed/metaranges/y"]
        columns = {"address": [*names, *more], "size": [1] * 7 + [10, 20, 30, 40]}
        table = tables.of(pa.table({**columns, "mtime": [now - age for age in ages] + [now] * 4}))

        assert list(await tables.shares(table, now)) == [
            Share("_lakebed/metaranges/", "under a day", 1, 40),
            Share("_lakebed/ranges/", "under a day", 1, 30),
            Share("data/", "1 to 7 days", 1, 1),
            Share("data/", "30 to 90 days", 1, 1),
            Share("data/", "7 to 30 days", 1, 1),
            Share("data/", "90 to 365 days", 1, 1),
            Share("data/", "over a year", 1, 1),
            Share("data/", "under a day", 2, 2),
            Share("outside of slices", "under a day", 2, 30),
        ]

    async def test_rows_are_saved_in_few_files_none_of_them_too_long(
        self, tables: Tables[Any], tmp_path: Path
    ) -> None:
        names = [f"n{i:05}" for i in range(1000)]
        table = tables.of(pa.table({"other": names, "name": names}))

        files = await tables.save(table, NAMES_FILE, "out/", rows_per_file=300)

        assert sum(file.rows for file in files) == 1000
        assert max(file.rows for file in files) <= 300
        assert len(files) <= 6
        assert [file.key for file in files] == sorted({file.key for file in files})
        saved = [decode_table(NAMES_FILE, (tmp_path / f.key).read_bytes(), rows=f.rows) for f in files]
        assert sorted(name for each in saved for name in each.column("name").to_pylist()) == names
        (one,) = await tables.save(table, NAMES_FILE, "one/", rows_per_file=1000)
        assert (one.rows, one.key[:4]) == (1000, "one/")
        assert await tables.save(of_nothing(tables), NAMES_FILE, "no/", rows_per_file=9) == ()
        assert not (tmp_path / "no").exists()

    async def test_what_is_kept_is_computed_once(self, tables: Tables[Any], tmp_path: Path) -> None:
        file = stored(tmp_path, "a.parquet", OBJECTS_FILE, address=["x", "y"], size=[1, 2], mtime=[0, 0])
        read = await tables.read([file], OBJECTS_FILE)
        kept = await tables.keep(tables.at_most(read, "size", 1))
        assert self.rows(await tables.keep(kept), "address") == [("x",)]
        assert await tables.amount(kept) == await tables.amount(kept) == Amount(1, 1)

    async def test_chunks_are_deleted_and_recorded(self, tables: Tables[Any], tmp_path: Path) -> None:
        (tmp_path / "data").mkdir()
        for name in "abc":
            (tmp_path / "data" / name).write_bytes(b"xx")
        chunks = []
        for name in "ab":
            row: dict[str, list[Any]] = {"address": [f"data/{name}"], "size": [2], "mtime": [0]}
            chunks.append(
                stored(tmp_path, f"r/marked/{name}.parquet", CANDIDATES_FILE, **row, first_marked_at=[0])
            )

        assert await tables.sweep([], aside="", rate=None) == Amount()
        assert await tables.sweep(chunks[:1], aside="", rate=1000.0) == Amount(1, 2)
        assert await tables.sweep(chunks, aside="run", rate=None) == Amount(2, 4)

        assert [path.name for path in (tmp_path / "data").iterdir()] == ["c"]
        assert sorted(path.name for path in (tmp_path / "r/deleted").iterdir()) == ["a.parquet", "b.parquet"]
        aside = [path for path in tmp_path.rglob("*") if path.is_file() and "quarantine" in path.parts]
        assert [path.name for path in aside] == ["b"]


class TestPolars(TablesSuite):
    @pytest.fixture
    def tables(self, tmp_path: Path) -> Tables[Any]:
        return PolarsTables(
            reached(tmp_path), namespace=NAMESPACE, clock=SystemClock(), workers=InlineWorkers()
        )

    def look(self, table: Any) -> pa.Table:
        found: pa.Table = table.collect().to_arrow()
        return found


@on(LOCAL)
class TestSpark(TablesSuite):
    @pytest.fixture
    def tables(self, spark: SparkSession, tmp_path: Path) -> Tables[Any]:
        return SparkTables(spark, reached(tmp_path), namespace=NAMESPACE, workers=InlineWorkers())

    def look(self, table: Any) -> pa.Table:
        found: pa.Table = table.frame.toArrow()
        return found

    async def test_a_failure_of_spark_says_what_failed(self, tables: Tables[Any]) -> None:
        table = tables.at_most(tables.of(pa.table({"address": ["not a number"]})), "address", 1)
        with pytest.raises(UnavailableError, match=r"a Spark job failed: .*CAST_INVALID_INPUT"):
            await tables.amount(table)

    async def test_what_was_read_outlives_what_it_was_read_from(
        self, tables: Tables[Any], tmp_path: Path
    ) -> None:
        file = stored(tmp_path, "a.parquet", NAMES_FILE, name=["x"])
        read = await tables.read([file], NAMES_FILE)
        assert read.kept
        assert "ExistingRDD" in read.frame._jdf.queryExecution().toString(), "its lineage is cut"
        assert (await tables.amount(read), read.amount) == (Amount(1, 0), Amount(1, 0))

    async def test_each_task_of_a_sweep_gets_its_part_of_the_rate(
        self, tables: Tables[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        asked = []

        def sweeping(store: Any, *, aside: str, rate: float | None) -> Any:
            asked.append((aside, rate))
            return spark_tasks._telling(lambda batches: (amounts(batch) for batch in batches))

        def amounts(batch: pa.RecordBatch) -> pa.RecordBatch:
            return pa.record_batch({"objects": [batch.num_rows], "bytes": [0]})

        monkeypatch.setattr(spark_tasks, "sweeping", sweeping)
        chunks = [DataFile(f"{number}", 1) for number in range(4)]
        assert (await tables.sweep(chunks, aside="r", rate=100.0)).objects == 4
        assert asked == [("r", 25.0)]


def reached(folder: Path) -> ObstoreStore:
    return ObstoreStore(LocalStore(folder, automatic_cleanup=False))


def stored(folder: Path, key: str, kind: FileKind, **columns: list[Any]) -> DataFile:
    (folder / key).parent.mkdir(parents=True, exist_ok=True)
    table = pa.table(columns)
    (folder / key).write_bytes(encode_table(kind, table))
    return DataFile(key, table.num_rows)


def of_nothing(tables: Tables[Any]) -> Any:
    return tables.of(NAMES_FILE.schema.empty_table())
