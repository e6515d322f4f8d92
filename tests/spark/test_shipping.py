"""Our code on executors that have another version of it, or none."""

import subprocess
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from zipfile import ZipFile

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from lakebed.spark.shipping import pack
from tests.spark.conftest import CLUSTER, on

pytestmark = pytest.mark.timeout(600)


@on(CLUSTER)
def test_what_runs_on_executors_is_what_was_shipped_with_its_entry_points(spark: SparkSession) -> None:
    python = spark.sparkContext.pythonExec
    theirs = subprocess.run(
        [python, "-c", "import lakebed.model"], capture_output=True, text=True, check=False
    )
    assert "No module named 'lakebed.model'" in theirs.stderr

    def where(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from importlib.metadata import entry_points

        from lakebed.model import ids

        for _ in batches:
            jobs = len(entry_points(group="lakebed.jobs"))
            yield pa.RecordBatch.from_pylist([{"place": ids.__file__, "jobs": jobs}])

    rows = spark.range(0, 2, numPartitions=2).mapInArrow(where, "place string, jobs long").collect()
    assert len(rows) == 2
    assert all(".zip/lakebed/model/ids.py" in row.place and row.jobs == 1 for row in rows)


def test_the_archive_has_our_modules_and_no_tests(tmp_path: Path) -> None:
    archive = pack(tmp_path)
    names = ZipFile(archive).namelist()
    assert {"lakebed/__init__.py", "lakebed/format/ranges.py"} <= set(names)
    assert f"lakebed-{version('lakebed')}.dist-info/entry_points.txt" in names
    assert not [name for name in names if "testing/" in name or name.endswith(".pyc")]


def test_packing_twice_makes_one_archive(tmp_path: Path) -> None:
    assert pack(tmp_path) == pack(tmp_path)
    assert len(list(tmp_path.iterdir())) == 1
