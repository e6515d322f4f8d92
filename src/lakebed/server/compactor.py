"""`lakebed compactor`: a process that compacts what is staged, beside servers or on machines of its own.

`lakebed run` starts one by itself. More share the work: on the same data folder, or on other machines where
the database and the storage are remote. None of them leads, and any may be killed at any time.
"""

import asyncio
import os
import signal
from multiprocessing.connection import Connection
from typing import Annotated

import typer
import uvloop
from prometheus_client import CollectorRegistry, start_http_server

from lakebed.compaction.meters import CompactionMeters
from lakebed.env.clock import SystemClock
from lakebed.env.priority import step_back
from lakebed.errors import ErrorKind, InvalidInputError, UnavailableError
from lakebed.kv.drivers.lmdb import LmdbKV
from lakebed.server.compaction_worker import compaction_worker
from lakebed.server.config import Config, decode_config, load_config
from lakebed.server.data_folder import Layout, make_data_folder
from lakebed.server.draining import drain
from lakebed.server.installation import open_engine
from lakebed.server.metrics import reserve
from lakebed.server.options import DataOption, FileOption, environment
from lakebed.server.process import begin_process
from lakebed.server.supervised import end_with_supervisor
from lakebed.server.wiring import Wired
from lakebed.telemetry.log import configure, get_logger

log = get_logger(__name__)

# Requests go first: compaction takes the processor when they leave it.
_NICE = 10
_RETRY_SECONDS = 1.0


def compactor(
    *,
    data: DataOption = None,
    config: FileOption = None,
    jobs: Annotated[
        int | None,
        typer.Option(min=1, help="Jobs at a time.", show_default="as many as there are processors"),
    ] = None,
    metrics: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="Where to show metrics to Prometheus.")
    ] = None,
    until_idle: Annotated[
        bool,
        typer.Option(
            "--until-idle", help="End when nothing is left to do, as a job that is run now and then."
        ),
    ] = False,
) -> None:
    """Compact what is staged until SIGTERM or Ctrl-C, beside any number of servers and other compactors."""
    begin_process()
    loaded = load_config(
        flags={
            "data": data,
            "compactor.jobs": str(jobs) if jobs else None,
            "compactor.metrics": metrics,
        },
        environment=environment(),
        file=config,
    )
    configure(level=loaded.log_level, json=loaded.log_json)
    make_data_folder(loaded.data)
    registry = CollectorRegistry()
    if loaded.compactor_metrics is not None:
        _show(registry, *loaded.compactor_metrics)
    os.nice(_NICE)
    uvloop.run(drain(loaded, registry) if until_idle else _compact(loaded, CompactionMeters(registry)))


def compact(encoded: str, supervisor: Connection) -> None:
    """Compact in a process that a server's supervisor has started."""
    begin_process()
    config = decode_config(encoded)
    # A terminal that goes away takes the group of its foreground with it: this process ends in order, with its
    # supervisor. It stays in the session: only among processes of one can those in the background give way.
    os.setpgid(0, 0)
    configure(level=config.log_level, json=config.log_json)
    end_with_supervisor(config.shutdown_seconds)
    os.nice(_NICE)
    # Whether the database answers is for those to say who answer requests.
    supervisor.send(None)
    uvloop.run(_compact_beside(config))


async def _compact_beside(config: Config) -> None:
    while True:
        try:
            reserve(Layout(config.data.absolute()).metrics)
            break
        except UnavailableError as error:
            log.warning("compactor_not_started", kind=error.kind, error=str(error))
            await SystemClock().sleep(_RETRY_SECONDS)
    await _compact(config, CompactionMeters(CollectorRegistry()))


def _show(registry: CollectorRegistry, host: str, port: int) -> None:
    try:
        start_http_server(port, host, registry)
    except OSError as error:
        raise InvalidInputError(
            ErrorKind.INVALID_CONFIG, f"metrics cannot be shown at {host}:{port}: {error.strerror}"
        ) from error


async def _compact(config: Config, meters: CompactionMeters) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    while not stop.is_set():
        try:
            async with open_engine(config, Layout(config.data.absolute()), background=True) as wired:
                _step_back(wired)
                await _work(config, wired, meters, stop)
        except UnavailableError as error:
            log.warning("compactor_not_started", kind=error.kind, error=str(error))
            await SystemClock().sleep(_RETRY_SECONDS)


def _step_back(wired: Wired) -> None:
    """Let this process yield the processor to requests.

    Its writes to the embedded database stay as urgent as they were, in a thread of their own, which is there
    already: whoever holds the database's lock must get on, because everybody else waits for it.
    """
    kv = wired.engine.parts.kv
    if isinstance(kv, LmdbKV):
        kv.writer.inline = False
    step_back()


async def _work(config: Config, wired: Wired, meters: CompactionMeters, stop: asyncio.Event) -> None:
    worker = compaction_worker(config, wired, meters)
    working = asyncio.create_task(worker.run())
    stopped = asyncio.create_task(stop.wait())
    await asyncio.wait({working, stopped}, return_when=asyncio.FIRST_COMPLETED)
    worker.stop()
    stopped.cancel()
    await working
