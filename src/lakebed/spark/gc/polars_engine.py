"""The engine that needs no JVM: `PolarsTables` over a folder of its own, which goes when the engine is closed."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from lakebed.spark.gc.job import EngineOptions
from lakebed.spark.gc.obstore_store import ObstoreStore
from lakebed.spark.gc.polars_tables import PolarsTables
from lakebed.spark.gc.ports import Started
from lakebed.spark.gc.progress import HowFar, Tally


class PolarsEngine:
    """An `Engine` on this machine."""

    def __init__(self, folder: Path, options: EngineOptions) -> None:
        self._folder = folder
        self._options = options
        self._tally = Tally()

    def tables(self, started: Started, store: ObstoreStore) -> PolarsTables:
        return PolarsTables(
            store,
            namespace=started.namespace,
            clock=self._options.clock,
            workers=self._options.workers,
            folder=self._folder,
            count=self._tally.add,
        )

    def how_far(self) -> HowFar:
        return self._tally.how_far()


@contextmanager
def open_engine(options: EngineOptions) -> Iterator[PolarsEngine]:
    """Yield the engine. `options.master` says nothing to it."""
    with TemporaryDirectory(prefix="lakebed-gc-") as folder:
        yield PolarsEngine(Path(folder), options)
