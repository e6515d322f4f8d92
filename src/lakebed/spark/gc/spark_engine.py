"""The engine on Spark: `SparkTables` in a session that is found or started, and stopped if it was started."""

from contextlib import ExitStack
from typing import Final

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

    def __init__(self, options: EngineOptions) -> None:
        self._options = options
        self._open = ExitStack()
        session = open_session("lakebed gc", master=options.master, conf=_SETTINGS, log=options.spark_log)
        self._spark = self._open.enter_context(session)
        self._stages = Stages(self._spark.sparkContext.statusTracker())

    def tables(self, started: Started, store: ObstoreStore) -> SparkTables:
        return SparkTables(self._spark, store, namespace=started.namespace, workers=self._options.workers)

    def how_far(self) -> HowFar:
        return self._stages.how_far()

    def close(self) -> None:
        self._open.close()


def open_engine(options: EngineOptions) -> SparkEngine:
    """Return the engine, with Spark running."""
    return SparkEngine(options)
