"""A worker for compaction as every process of this machine has one: with a place for each processor, unless told otherwise."""

import os

from lakebed.compaction.meters import CompactionMeters
from lakebed.compaction.worker import CompactionWorker
from lakebed.env.clock import SystemClock
from lakebed.env.ids import SystemIds
from lakebed.server.config import Config
from lakebed.server.wiring import Wired
from lakebed.telemetry.log import get_logger

log = get_logger(__name__)


def compaction_worker(config: Config, wired: Wired, meters: CompactionMeters) -> CompactionWorker:
    """Return a worker on the engine, and say in the log that it is ready."""
    places = config.compactor_jobs or os.cpu_count() or 1
    worker = CompactionWorker(
        wired.engine.compaction,
        wired.job_runner,
        places=places,
        clock=SystemClock(),
        ids=SystemIds(),
        meters=meters,
    )
    log.info("compactor_ready", jobs=places)
    return worker
