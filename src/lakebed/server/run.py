"""`lakebed run`: set up if need be, then supervise the workers that serve HTTP.

The supervisor holds the data folder and answers for its workers: one that dies is
replaced, and at SIGTERM each stops accepting connections, answers what has begun,
puts on disk what it has acknowledged, and ends.
"""

import asyncio
import os
import socket
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from lakebed.env.clock import SystemClock
from lakebed.server.compactor import compact
from lakebed.server.config import Config, encode_config, load_config
from lakebed.server.data_folder import DataFolder
from lakebed.server.http.listening import bound
from lakebed.server.http.supervisor import Supervisor
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
from lakebed.server.process import begin_process
from lakebed.server.quickstart import QUICKSTART_PAIR, say_what_next, with_loopback_only
from lakebed.server.sample import make_quickstart, make_sample
from lakebed.server.settings import unknown_variables
from lakebed.server.setup import opened
from lakebed.server.worker import work
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
        typer.Option(
            "--quickstart",
            help="Everything in one folder, on loopback, with a well-known key and a repository `quickstart`.",
        ),
    ] = False,
    sample: Annotated[
        bool | None,
        typer.Option(
            "--sample/--no-sample",
            help="Create a repository `sample` and say what to try; or create no repository, not even `quickstart`.",
            show_default=False,
        ),
    ] = None,
    workers: WorkersOption = None,
    tls_cert: TlsCertOption = None,
    tls_key: TlsKeyOption = None,
) -> None:
    """Serve the REST API until SIGTERM or Ctrl-C."""
    begin_process()
    flags = {"listen": listen, "data": data, "workers": workers, "tls.cert": tls_cert, "tls.key": tls_key}
    variables = environment()
    loaded = load_config(flags=flags, environment=variables, file=config)
    if quickstart:
        loaded = with_loopback_only(loaded)
    if loaded.tls is not None:
        loaded.tls.check()
    with ExitStack() as stack:
        sockets = [stack.enter_context(bound(*address)) for address in loaded.addresses]
        configure(level=loaded.log_level, json=loaded.log_json)
        for name, meant in unknown_variables(list(variables)).items():
            log.warning("unknown_variable", name=name, did_you_mean=meant)
        if loaded.ignored_variables:
            log.warning(
                "variables_ignored",
                names=",".join(loaded.ignored_variables),
                reason="the endpoint is this server's own address: they are for its clients. Storage in S3 has settings of its own, storage.s3",
            )
        folder = DataFolder.open(loaded.data)
        stack.callback(folder.close)
        asyncio.run(_first_start(loaded, folder, quickstart=quickstart, sample=sample))
        if quickstart:
            say_what_next(out, loaded, folder.path, sample=bool(sample))
        _serve(loaded, fresh_folder(folder.layout.metrics), sockets)


def _serve(config: Config, metrics: Path, sockets: Sequence[socket.socket]) -> None:
    os.environ[LIBRARY_VARIABLE] = str(metrics)  # noqa: TID251  read by the library when a worker loads it
    Supervisor(
        work,
        encode_config(config),
        sockets,
        workers=config.workers,
        beside=compact if config.compaction else None,
        # Longer than this a client that stopped sending, or a stuck store, does not hold up the end.
        seconds=config.shutdown_seconds,
        clock=SystemClock(),
    ).run()


async def _first_start(config: Config, folder: DataFolder, *, quickstart: bool, sample: bool | None) -> None:
    """Create the first user, if there is none and somebody said who it is, and repositories to try things with."""
    async with opened(config, folder.layout) as (wired, auth):
        if sample:
            await make_sample(wired.catalog, out)
        if await auth.setup.is_set_up():
            await auth.setup.require_key()
            return
        pair = config.first_user.pair or (QUICKSTART_PAIR if quickstart else None)
        if pair is not None:
            await auth.setup.set_up(config.first_user.name, pair=pair)
            if quickstart and sample is not False:
                await make_quickstart(wired.catalog, out)
            return
    out.print(
        "Nobody can come in yet: stop the server and run [bold]lakebed setup[/], "
        f"or POST a username to {config.endpoint}/api/v1/setup_lakefs",
        soft_wrap=True,
    )
