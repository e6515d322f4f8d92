"""`lakebed spark`: jobs on Spark. Its own module, since a list of commands must not wait for Spark to load."""

from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer
from rich.console import Console
from rich.table import Table

from lakebed.errors import ErrorKind, InvalidInputError

app = typer.Typer(no_args_is_help=True, help="Run large jobs on Spark: on this machine, or on a cluster.")


MasterOption = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        help="Where Spark runs: local[N], spark://HOST:PORT, yarn, k8s://….",
        show_default="this machine, or where it was submitted to",
    ),
]
SparkLogOption = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Where to keep what Spark has to say.", show_default="nowhere"),
]


@app.callback()
def _jobs() -> None:
    """Run large jobs on Spark: on this machine, or on a cluster."""


@app.command()
def compaction(
    *,
    data: Annotated[str | None, typer.Option(metavar="DIR", help="The data folder.")] = None,
    config: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A TOML file with the server's settings.")
    ] = None,
    master: MasterOption = None,
    tasks: Annotated[
        int | None,
        typer.Option(min=1, help="Compactors to start.", show_default="as many as executors have cores"),
    ] = None,
    spark_log: SparkLogOption = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Compact everything that is due, with the cores of a cluster, and end."""
    spark = load_with_spark("lakebed.spark.compaction")
    done = spark.compact(data=data, config=config, master=master, tasks=tasks, log=spark_log)
    if json:
        typer.echo(msgspec.json.encode(done).decode())
        return
    table = Table("executor", "tasks", "jobs", "failed", "rows", "read", "written", box=None, pad_edge=False)
    for each in done:
        counts = (each.tasks, each.jobs, each.failed, each.rows, each.bytes_read, each.bytes_written)
        table.add_row(f"{each.machine}:{each.process}", *(f"{count:,}" for count in counts))
    Console(highlight=False).print(table)


def load_with_spark(name: str) -> Any:
    """Return a module that imports PySpark.

    Raises:
        InvalidInputError: `INVALID_CONFIG`: PySpark is not installed.
    """
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] not in {"pyspark", "py4j"}:
            raise
        raise InvalidInputError(
            ErrorKind.INVALID_CONFIG, "Spark is not installed: pip install 'lakebed[spark]'"
        ) from error
