"""Compacting until nothing is left: what `lakebed compactor --until-idle` does, and each task of a Spark job.

A drain is a worker like any other, with the same leases. It goes on while anybody has a job, because a
worker that dies leaves its jobs to those who are still there, and for a moment after the last one,
because what has only just been staged is sealed when it is quiet.

The functions at the end are what Spark asks for by the entry point `lakebed.jobs`, since it imports nothing of the
server: `settings` on the driver, `work` on executors.
"""

import asyncio
import signal
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final
from urllib.parse import urlsplit

import uvloop
from prometheus_client import CollectorRegistry

from lakebed.compaction.jobs import Made
from lakebed.compaction.meters import CompactionMeters
from lakebed.compaction.service import Backlog
from lakebed.env.clock import SystemClock
from lakebed.limits import SEAL_QUIET_SECONDS
from lakebed.model.compaction import JobKind, JobState, Schedule
from lakebed.model.repository import Repository
from lakebed.server.compaction_worker import compaction_worker
from lakebed.server.config import Config, decode_config, encode_config, load_config
from lakebed.server.data_folder import Layout, make_data_folder
from lakebed.server.installation import open_engine
from lakebed.server.options import environment
from lakebed.server.wiring import Wired
from lakebed.telemetry.log import configure, get_logger

log = get_logger(__name__)

# Long enough to see twice that nobody writes to a staging token, and seal it.
_IDLE_SECONDS: Final = 2 * SEAL_QUIET_SECONDS + 1.0
# Databases that only processes of one machine can share.
_EMBEDDED: Final = ("lmdb", "memory")


@dataclass(slots=True)
class Drained:
    """What one worker has done."""

    jobs: int = 0
    failed: int = 0
    """Attempts that came to nothing: failed, given back, or taken away."""
    rows: int = 0
    bytes_read: int = 0
    bytes_written: int = 0


class _Tally(CompactionMeters):
    """Counts what a worker does, and tells when it has asked for more."""

    def __init__(self, registry: CollectorRegistry) -> None:
        super().__init__(registry)
        self.drained = Drained()
        self.polled = asyncio.Event()

    def ended(self, kind: JobKind, outcome: str, *, seconds: float, made: Made | None) -> None:
        super().ended(kind, outcome, seconds=seconds, made=made)
        if made is None:
            self.drained.failed += 1
            return
        self.drained.jobs += 1
        self.drained.rows += made.rows
        self.drained.bytes_read += made.bytes_read
        self.drained.bytes_written += made.bytes_written

    def saw(self, backlog: Backlog) -> None:
        super().saw(backlog)
        self.polled.set()


async def drain(config: Config, registry: CollectorRegistry | None = None) -> Drained:
    """Compact until there is nothing to do, or until SIGTERM or Ctrl-C; return what was done."""
    tally = _Tally(registry or CollectorRegistry())
    async with open_engine(config, Layout(config.data.absolute())) as wired:
        worker = compaction_worker(config, wired, tally)
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, worker.stop)
        working = asyncio.create_task(worker.run())
        idle = asyncio.create_task(_idle(wired, tally))
        await asyncio.wait({working, idle}, return_when=asyncio.FIRST_COMPLETED)
        worker.stop()
        idle.cancel()
        await working
    log.info("compactor_idle", **asdict(tally.drained))
    return tally.drained


async def _idle(wired: Wired, tally: _Tally) -> None:
    """Return when nobody has had anything to do for a while, as seen after each poll."""
    clock = SystemClock()
    since, done = clock.monotonic(), 0
    while True:
        tally.polled.clear()
        await tally.polled.wait()
        attempts = tally.drained.jobs + tally.drained.failed
        if attempts != done or await _is_busy(wired):
            since, done = clock.monotonic(), attempts
        elif clock.monotonic() - since >= _IDLE_SECONDS:
            return


async def _is_busy(wired: Wired) -> bool:
    async for found in wired.engine.repositories.scan():
        if isinstance(found.value, Repository):
            schedule = (await wired.engine.compaction.jobs.read(found.value)).value
            if _has_work(schedule):
                return True
    return False


def _has_work(schedule: Schedule) -> bool:
    """Return whether a job runs, or waits for a worker and not for a person."""
    states = {job.state for job in schedule.jobs}
    return JobState.RUNNING in states or (JobState.QUEUED in states and not schedule.paused)


def settings(*, data: str | None, file: Path | None) -> str:
    """Return what workers elsewhere need to know. It holds secrets."""
    config = load_config(flags={"data": data}, environment=environment(), file=file)
    make_data_folder(config.data)
    storage = replace(
        config.storage, data_dir=config.storage.data_dir or Layout(config.data.absolute()).objects
    )
    # A task has one core: whoever starts them decides how many there are.
    return encode_config(replace(config, data=config.data.absolute(), storage=storage, compactor_jobs=1))


def is_for_one_machine(text: str) -> bool:
    """Return whether only processes of this machine can work with these settings."""
    url = decode_config(text).kv_url
    return url is None or urlsplit(url).scheme in _EMBEDDED


def work(text: str) -> dict[str, int]:
    """Compact until there is nothing to do, and return what was done, by the names of `Drained`."""
    config = decode_config(text)
    configure(level=config.log_level, json=config.log_json)
    if is_for_one_machine(text):
        return asdict(uvloop.run(drain(config)))
    # Only the cache lies there: this machine may not know the other's folders.
    with TemporaryDirectory(prefix="lakebed-") as scratch:
        make_data_folder(Path(scratch))
        return asdict(uvloop.run(drain(replace(config, data=Path(scratch)))))
