"""Compaction on Spark: a backlog shared by as many workers as the executors have cores.

Every task is a compactor of its own: it asks the database for jobs, holds them by leases, and ends when
nobody has anything left to do. Spark only starts them. A task whose executor dies is started again
elsewhere, and its jobs go to whoever asks next once their leases have run out.

    lakebed spark compaction --master …
    spark-submit … -m lakebed.spark.compaction
"""

import os
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyarrow as pa
import typer
from pyspark.sql import SparkSession

from lakebed.errors import ErrorKind, InvalidInputError, LakebedError
from lakebed.spark.commands import compaction
from lakebed.spark.jobs import load_job
from lakebed.spark.session import open_session
from lakebed.spark.settings import is_one_machine

_JOB: Final = "compaction"
_COUNTS: Final = ("jobs", "failed", "rows", "bytes_read", "bytes_written")
_SCHEMA: Final = f"machine string, process long, {', '.join(f'{name} long' for name in _COUNTS)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutorWork:
    """What the tasks of one executor did together. Those of a killed one are not heard of."""

    machine: str
    process: int
    """What started the executor's tasks."""
    tasks: int
    jobs: int
    failed: int
    rows: int
    bytes_read: int
    bytes_written: int


def compact(
    *,
    data: str | None = None,
    config: Path | None = None,
    master: str | None = None,
    tasks: int | None = None,
    log: Path | None = None,
) -> list[ExecutorWork]:
    """Compact everything that is due, and return who did how much.

    Raises:
        InvalidInputError: `INVALID_CONFIG`: the database is embedded, and executors may be elsewhere.
    """
    text = load_job(_JOB).settings(data=data, file=config)
    with open_session("lakebed compaction", master=master, log=log) as spark:
        return spread(spark, text, tasks=tasks)


def spread(spark: SparkSession, text: str, *, tasks: int | None = None) -> list[ExecutorWork]:
    """Compact in a session; `text` is what the job's `settings` returned."""
    context = spark.sparkContext
    master = context.master or ""
    if load_job(_JOB).is_for_one_machine(text) and not is_one_machine(master):
        raise InvalidInputError(
            ErrorKind.INVALID_CONFIG,
            f"the executors of {master} cannot reach a database that is embedded in a data folder: "
            "set `database` to a PostgreSQL, or run on this machine with --master 'local[*]'",
        )
    count = tasks or context.defaultParallelism
    workers = spark.range(0, count, numPartitions=count).mapInArrow(_working(text), _SCHEMA)
    found: pa.Table = workers.toArrow()
    kept = found.group_by(["machine", "process"], use_threads=False)
    summed = kept.aggregate([([], "count_all"), *((name, "sum") for name in _COUNTS)])
    return [
        ExecutorWork(
            machine=row["machine"],
            process=row["process"],
            tasks=row["count_all"],
            **{name: row[f"{name}_sum"] for name in _COUNTS},
        )
        for row in summed.to_pylist()
    ]


def _working(text: str) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for _ in range(batch.num_rows):
                done = load_job(_JOB).work(text)
                # Workers are children of a process that each executor has one of.
                who = {"machine": socket.gethostname(), "process": os.getppid()}
                yield pa.RecordBatch.from_pylist([{**who, **done}])

    return work


if __name__ == "__main__":
    try:
        typer.run(compaction)
    except LakebedError as error:
        raise SystemExit(f"error: {error}") from error
