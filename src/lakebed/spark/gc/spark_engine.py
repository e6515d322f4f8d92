"""The engine on Spark: `SparkTables` in a session that is found or started, and stopped if it was started."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from pyspark.sql import SparkSession
from pyspark.sql.utils import is_remote

from lakebed.spark.gc.job import EngineOptions
from lakebed.spark.gc.obstore_store import ObstoreStore
from lakebed.spark.gc.ports import Started
from lakebed.spark.gc.progress import HowFar
from lakebed.spark.gc.spark_stages import Stages
from lakebed.spark.gc.spark_tables import SparkTables
from lakebed.spark.session import open_session

_SETTINGS: Final = {
    # A join by hash holds one side of a part in memory, several times as large as it is on its way there; what is
    # above this is sorted, and spills.
    "spark.sql.adaptive.maxShuffledHashJoinLocalMapThreshold": "64m",
    # Rows that are kept are written twice as fast.
    "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
}


class SparkEngine:
    """An `Engine` on Spark."""

    def __init__(self, spark: SparkSession, options: EngineOptions) -> None:
        self._spark = spark
        self._options = options
        # A remote session tells nobody what its stages do.
        self._stages = None if is_remote() else Stages(spark.sparkContext.statusTracker())

    def tables(self, started: Started, store: ObstoreStore) -> SparkTables:
        return SparkTables(self._spark, store, namespace=started.namespace, workers=self._options.workers)

    def how_far(self) -> HowFar:
        return HowFar() if self._stages is None else self._stages.how_far()


@contextmanager
def open_engine(options: EngineOptions) -> Iterator[SparkEngine]:
    """Yield the engine, with Spark running; what fails in Spark inside the block is told in its words."""
    with open_session("lakebed gc", master=options.master, conf=_SETTINGS, log=options.spark_log) as spark:
        yield SparkEngine(spark, options)
