"""`lakebed run`: set up if need be, then supervise the workers that serve HTTP.

The supervisor holds the data folder and answers for its workers: one that dies is
replaced, and at SIGTERM each stops accepting connections, answers what has begun,
puts on disk what it has acknowledged, and ends.
"""

import asyncio
import errno
import logging
import multiprocessing
import os
import socket
from dataclasses import replace
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Annotated

import typer
from granian import Granian
from granian.constants import Interfaces, Loops, SSLProtocols
from granian.log import LogLevels
from rich.console import Console

from lakebed.errors import ErrorKind, InvalidInputError, UnavailableError
from lakebed.server.config import Config, decode_config, encode_config, load_config
from lakebed.server.data_folder import DataFolder
from lakebed.server.granian_log import GRANIAN_LOG
from lakebed.server.metrics import LIBRARY_VARIABLE, fresh_folder
from lakebed.server.options import (
    DataOption,
    FileOption,
    ListenOption,
    TlsCertOption,
    TlsKeyOption,
    WorkersOption,
    environment,
)
from lakebed.server.quickstart import QUICKSTART_PAIR, require_loopback, say_what_next
from lakebed.server.sample import make_sample
from lakebed.server.settings import WORKER_VARIABLE, unknown_variables
from lakebed.server.setup import opened
from lakebed.server.worker import end_with_supervisor
from lakebed.telemetry.log import configure, get_logger

out = Console(highlight=False)
log = get_logger(__name__)


def run(
    *,
    listen: ListenOption = None,
    data: DataOption = None,
    config: FileOption = None,
    quickstart: Annotated[
        bool,
        typer.Option("--quickstart", help="Everything in one folder, on loopback, with a well-known key."),
    ] = False,
    sample: Annotated[
        bool, typer.Option("--sample", help="Create a sample repository and say what to try.")
    ] = False,
    workers: WorkersOption = None,
    tls_cert: TlsCertOption = None,
    tls_key: TlsKeyOption = None,
) -> None:
    """Serve the REST API until SIGTERM or Ctrl-C."""
    flags = {"listen": listen, "data": data, "workers": workers, "tls.cert": tls_cert, "tls.key": tls_key}
    variables = environment()
    loaded = load_config(flags=flags, environment=variables, file=config)
    if quickstart:
        require_loopback(loaded)
    if loaded.tls is not None:
        loaded.tls.check()
    _require_free(loaded.host, loaded.port)
    if loaded.s3_listen is not None:
        _require_free(*loaded.s3_listen)
    configure(level=loaded.log_level, json=loaded.log_json)
    for name, meant in unknown_variables(list(variables)).items():
        log.warning("unknown_variable", name=name, did_you_mean=meant)
    folder = DataFolder.open(loaded.data)
    try:
        asyncio.run(_first_start(loaded, folder, quickstart=quickstart, sample=sample))
        if quickstart:
            say_what_next(out, loaded, folder.path, sample=sample)
        _serve(loaded, fresh_folder(folder.layout.metrics))
    finally:
        folder.close()


def _serve(config: Config, metrics: Path) -> None:
    os.environ[WORKER_VARIABLE] = encode_config(config)  # noqa: TID251  handed to the workers
    os.environ[LIBRARY_VARIABLE] = str(metrics)  # noqa: TID251  read by the library when a worker loads it
    # A fork would copy the locks of Arrow's and Polars' threads, which ran during set-up, but not the threads.
    multiprocessing.set_start_method("spawn", force=True)
    beside = _start_s3_beside(config)
    try:
        _serve_one(config)
    finally:
        if beside is not None:
            beside.terminate()
            beside.join()


def _start_s3_beside(config: Config) -> BaseProcess | None:
    """Start what serves S3 on its own port: a server has one, so it is a second one, with workers of its own."""
    if config.s3_listen is None:
        return None
    host, port = config.s3_listen
    beside = multiprocessing.Process(
        target=_serve_s3,
        args=(encode_config(replace(config, host=host, port=port, s3_listen=None, s3_only=True)),),
        name="lakebed-s3",
    )
    beside.start()
    return beside


def _serve_s3(encoded: str) -> None:
    os.environ[WORKER_VARIABLE] = encoded  # noqa: TID251  handed to the workers
    config = decode_config(encoded)
    end_with_supervisor(config.shutdown_seconds)
    _serve_one(config)


def _serve_one(config: Config) -> None:
    Granian(
        "lakebed.server.worker:create_app",
        address=config.host,
        port=config.port,
        interface=Interfaces.ASGI,
        loop=Loops.uvloop,
        workers=config.workers,
        factory=True,
        log_access=False,
        log_dictconfig=GRANIAN_LOG,
        log_level=LogLevels(logging.getLevelName(config.log_level).lower()),
        websockets=False,
        ssl_cert=config.tls.cert if config.tls else None,
        ssl_key=config.tls.key if config.tls else None,
        # Java 8, which many Hadoop clients run on, may know nothing newer.
        ssl_protocol_min=SSLProtocols.tls12,
        # A worker that dies comes back; one that dies again within seconds ends the server, which says so.
        respawn_failed_workers=True,
        # Longer than this a client that stopped sending, or a stuck store, does not hold up the end.
        workers_kill_timeout=config.shutdown_seconds,
    ).serve()


async def _first_start(config: Config, folder: DataFolder, *, quickstart: bool, sample: bool) -> None:
    """Create the first user, if there is none and somebody said who it is."""
    async with opened(config, folder.layout) as (wired, auth):
        if sample:
            await make_sample(wired.catalog, out)
        if await auth.setup.is_set_up():
            await auth.setup.require_key()
            return
        pair = config.first_user.pair or (QUICKSTART_PAIR if quickstart else None)
        if pair is not None:
            await auth.setup.set_up(config.first_user.name, pair=pair)
            return
    out.print(
        "Nobody can come in yet: stop the server and run [bold]lakebed setup[/], "
        f"or POST a username to {config.endpoint}/api/v1/setup_lakefs",
        soft_wrap=True,
    )


def _require_free(host: str, port: int) -> None:
    """Workers share the port, and so would a second server: the kernel would hand requests to either.

    Raises:
        UnavailableError: `IN_USE`: somebody listens there.
        InvalidInputError: `INVALID_CONFIG`: nobody can listen there.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as probe:
        # Connections of a server that has just ended do not count.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise _no_address(f"{host}:{port}", error) from error


def _no_address(listen: str, error: OSError) -> UnavailableError | InvalidInputError:
    if error.errno == errno.EADDRINUSE:
        return UnavailableError(
            ErrorKind.IN_USE,
            f"somebody listens on {listen} already: stop them, or choose another port with --listen",
        )
    return InvalidInputError(
        ErrorKind.INVALID_CONFIG, f"--listen {listen} cannot be listened on: {error.strerror}"
    )
