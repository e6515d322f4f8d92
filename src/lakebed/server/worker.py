"""Where a worker process begins, and how it ends.

Its configuration comes through the pipe that starts it, not by the environment, where
whoever may look at the process could read its secrets.
"""

import asyncio
import os
import signal
import socket
from collections.abc import Sequence
from multiprocessing.connection import Connection

import uvloop

from lakebed.env.clock import SystemClock
from lakebed.env.ids import SystemIds
from lakebed.errors import LakebedError, UnavailableError
from lakebed.server.asgi import WorkerApp
from lakebed.server.config import Config, decode_config
from lakebed.server.http.acceptor import Acceptor
from lakebed.server.http.app import App
from lakebed.server.http.balance import Balance
from lakebed.server.http.connections import Connections
from lakebed.server.http.listening import connections_max
from lakebed.server.metrics import LIBRARY_VARIABLE
from lakebed.server.process import begin_process
from lakebed.server.supervised import end_with_supervisor
from lakebed.telemetry.log import configure, get_logger
from lakebed.telemetry.request_ids import RequestIds

_RETRY_SECONDS = 1.0

log = get_logger(__name__)


def work(encoded: str, sockets: Sequence[socket.socket], balance: Balance, supervisor: Connection) -> None:
    """Serve on the sockets (the second one is for S3 alone) until told to stop."""
    begin_process()
    config = decode_config(encoded)
    # A terminal that goes away takes the group of its foreground with it: this process ends in order, with its
    # supervisor. It stays in the session: only among processes of one can those in the background give way.
    os.setpgid(0, 0)
    configure(level=config.log_level, json=config.log_json)
    end_with_supervisor(config.shutdown_seconds)
    uvloop.run(_serve(config, sockets, balance, supervisor))


async def _serve(
    config: Config, sockets: Sequence[socket.socket], balance: Balance, supervisor: Connection
) -> None:
    stop = asyncio.Event()
    # Service managers tell every process, and then the supervisor tells its workers once more.
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    clock = SystemClock()
    app = WorkerApp(config, shared_metrics=LIBRARY_VARIABLE in os.environ)  # noqa: TID251  set by the supervisor
    try:
        started = await _started(app)
    except LakebedError as error:
        supervisor.send(error)
        return
    connections = Connections(clock, RequestIds(SystemIds().token()), balance, limit=connections_max())
    tls = config.tls.context() if config.tls else None
    edges: list[App] = [app, app.s3]
    acceptors = [
        Acceptor(listening, edge, connections, tls=tls)
        for listening, edge in zip(sockets, edges, strict=False)
    ]
    for acceptor in acceptors:
        acceptor.start()
    supervisor.send(None)
    while not (started or stop.is_set()):
        await clock.sleep(_RETRY_SECONDS)
        started = await _started(app)
    await stop.wait()
    for acceptor in acceptors:
        acceptor.stop()
    await connections.end(config.shutdown_seconds)
    await app.stop()


async def _started(app: WorkerApp) -> bool:
    """Start the application; return whether it could: while its database is down, it says so to whoever asks."""
    try:
        await app.start()
    except UnavailableError as error:
        log.warning("not_started", kind=error.kind, error=str(error))
        await app.stop()
        return False
    return True
