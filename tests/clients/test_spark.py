"""Spark with s3a: what it writes on a branch is there at the commit, whole, and nothing else is."""

import json
import re
from pathlib import Path

import pytest

from tests.clients.spark import Spark
from tests.s3.conftest import Endpoint

PAGE = (Path(__file__).parents[2] / "docs" / "s3.md").read_text(encoding="utf-8")
EXAMPLE = re.findall(r"^```python clients\n(.*?)```", PAGE, re.MULTILINE | re.DOTALL)[0]
SESSION = EXAMPLE[: EXAMPLE.index("sales = ")]

pytestmark = [pytest.mark.server, pytest.mark.timeout(1200)]


def test_the_example_in_the_docs_commits_parquet_and_reads_it_at_the_commit(
    spark: Spark, endpoint: Endpoint, repo: str
) -> None:
    shown = spark.run(_of(endpoint, repo, EXAMPLE))

    assert shown.split() == ["143"]
    paths = _paths(endpoint, repo, "main", "spark/sales/")
    assert "spark/sales/_SUCCESS" in paths
    assert {path.split("/")[2] for path in paths if "=" in path} == {f"day={day}" for day in range(7)}
    assert not [path for path in paths if "_temporary" in path]


def test_spark_overwrites_appends_and_reads_what_it_wrote(
    spark: Spark, endpoint: Endpoint, repo: str
) -> None:
    code = """
    place = "s3a://lake/main/modes"
    spark.range(10).write.parquet(place)
    spark.range(5).write.mode("append").parquet(place)
    print(spark.read.parquet(place).count())
    spark.range(3).repartition(2).write.mode("overwrite").parquet(place)
    print(spark.read.parquet(place).count())
    spark.range(2000000).repartition(1).write.mode("overwrite").option("compression", "none").parquet(place)
    print(spark.read.parquet(place).selectExpr("sum(id)").first()[0])
    """
    shown = spark.run(_of(endpoint, repo, SESSION + _flush_left(code)))

    assert shown.split() == ["15", "3", "1999999000000"]


def test_partitions_that_are_overwritten_leave_the_others(
    spark: Spark, endpoint: Endpoint, repo: str
) -> None:
    code = """
    place = "s3a://lake/main/dynamic"
    spark.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
    spark.range(9).selectExpr("id", "id % 3 AS third").write.partitionBy("third").parquet(place)
    changed = spark.range(100, 101).selectExpr("id", "1 AS third")
    changed.write.mode("overwrite").partitionBy("third").parquet(place)
    print(sorted(row.id for row in spark.read.parquet(place).collect()))
    """
    shown = spark.run(_of(endpoint, repo, SESSION + _flush_left(code)))

    assert shown.strip() == "[0, 2, 3, 5, 6, 8, 100]"


def test_the_magic_committer_makes_objects_of_its_uploads(
    spark: Spark, endpoint: Endpoint, repo: str
) -> None:
    code = """
    hadoop = {
        "mapreduce.outputcommitter.factory.scheme.s3a": "org.apache.hadoop.fs.s3a.commit.S3ACommitterFactory",
        "fs.s3a.committer.name": "magic",
        "mapreduce.job.output.key.class": "org.apache.hadoop.io.Text",
        "mapreduce.job.output.value.class": "org.apache.hadoop.io.Text",
    }
    spark.sparkContext.parallelize([("a", "1"), ("b", "2")], 2).saveAsNewAPIHadoopFile(
        "s3a://lake/main/magic", "org.apache.hadoop.mapreduce.lib.output.TextOutputFormat", conf=hadoop
    )
    print(sorted(row.value for row in spark.read.text("s3a://lake/main/magic").collect()))
    """
    shown = spark.run(_of(endpoint, repo, SESSION + _flush_left(code)))

    assert shown.strip() == "['a\\t1', 'b\\t2']"
    paths = _paths(endpoint, repo, "main", "magic/")
    assert not [path for path in paths if "__magic" in path]
    success = json.load(endpoint.client().get_object(Bucket=repo, Key="main/magic/_SUCCESS")["Body"])
    assert success["committer"] == "magic"


def _paths(endpoint: Endpoint, repo: str, ref: str, prefix: str) -> list[str]:
    listed = endpoint.rest("GET", f"/repositories/{repo}/refs/{ref}/objects/ls", params={"prefix": prefix})
    return [found["path"] for found in listed.json()["results"]]


def _flush_left(code: str) -> str:
    return code.replace("\n    ", "\n")


def _of(endpoint: Endpoint, repo: str, code: str) -> str:
    """Return an example for another server and repository."""
    code = code.replace("127.0.0.1:8000", endpoint.url.removeprefix("http://"))
    return re.sub(r"\blake(?=[/\"])", repo, code)
