"""Our code on executors that have none of it, or another version."""

import subprocess
import sys
import sysconfig
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

# What is installed here in site-packages, without what is installed as links: so without lakebed.
BARE = """#!/bin/sh
PYTHONPATH="$PYTHONPATH:{packages}" exec {python} -S "$@"
"""
ON_BARE = """
from collections.abc import Iterator
import pyarrow as pa
from lakebed.spark.session import open_session
def where(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    from importlib.metadata import entry_points
    import lakebed.model.ids
    for batch in batches:
        jobs = len(entry_points(group="lakebed.jobs"))
        yield pa.RecordBatch.from_pylist([{"place": lakebed.model.ids.__file__, "jobs": jobs}])
with open_session("bare", master="local-cluster[1,1,1024]") as spark:
    for row in spark.range(1).mapInArrow(where, "place string, jobs long").collect():
        print(row.place, row.jobs)
"""


def test_executors_without_lakebed_get_it_with_its_entry_points(tmp_path: Path) -> None:
    bare = tmp_path / "python"
    bare.write_text(BARE.format(packages=sysconfig.get_path("purelib"), python=sys.executable))
    bare.chmod(0o755)
    missing = subprocess.run([bare, "-c", "import lakebed"], capture_output=True, text=True, check=False)
    assert "No module named 'lakebed'" in missing.stderr

    done = subprocess.run(
        [sys.executable, "-c", ON_BARE],
        env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "PYSPARK_PYTHON": str(bare)},
        capture_output=True,
        text=True,
        timeout=560,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    place, jobs = done.stdout.split()
    assert ".zip/lakebed/model/ids.py" in place
    assert int(jobs) >= 1


@on(CLUSTER)
def test_what_runs_on_executors_is_what_was_shipped(spark: SparkSession) -> None:
    def where(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from lakebed.model import ids

        for _ in batches:
            yield pa.RecordBatch.from_pylist([{"place": ids.__file__}])

    rows = spark.range(0, 2, numPartitions=2).mapInArrow(where, "place string").collect()
    assert all(".zip/lakebed/model/ids.py" in row.place for row in rows)


def test_the_archive_has_our_modules_and_no_tests(tmp_path: Path) -> None:
    archive = pack(tmp_path)
    names = ZipFile(archive).namelist()
    assert {"lakebed/__init__.py", "lakebed/format/ranges.py"} <= set(names)
    assert f"lakebed-{version('lakebed')}.dist-info/entry_points.txt" in names
    assert not [name for name in names if "testing/" in name or name.endswith(".pyc")]


def test_packing_twice_makes_one_archive(tmp_path: Path) -> None:
    assert pack(tmp_path) == pack(tmp_path)
    assert len(list(tmp_path.iterdir())) == 1
