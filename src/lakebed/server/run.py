"""`lakebed run`: set up if need be, then supervise the workers that serve HTTP."""

import asyncio
import os
from pathlib import Path
from typing import Annotated

import typer
from granian import Granian
from granian.constants import Interfaces, Loops
from rich.console import Console

from lakebed.auth.auth import build_auth
from lakebed.env.clock import SystemClock
from lakebed.env.ids import SystemIds
from lakebed.errors import ErrorKind, InvalidInputError
from lakebed.model.auth import KeyPair
from lakebed.server.config import Config, encode_config, from_environment
from lakebed.server.data_folder import DataFolder
from lakebed.server.installation import open_engine
from lakebed.server.installation_key import installation_key
from lakebed.server.sample import REPO, make_sample
from lakebed.server.worker import CONFIG_VARIABLE
from lakebed.telemetry.log import configure

# The pair that every tutorial of the peer's quickstart shows. It is published, so it opens loopback only.
_QUICKSTART_KEY = "AKIAIOSFOLQUICKSTART"
_QUICKSTART_SECRET = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"  # noqa: S105  documented, not secret

app = typer.Typer(invoke_without_command=True, help="Serve the REST API.")
out = Console(highlight=False)


@app.callback()
def run(
    *,
    listen: Annotated[str, typer.Option(help="HOST:PORT to listen on.")] = "127.0.0.1:8000",
    data: Annotated[Path, typer.Option(help="The data folder.")] = Path("lakebed-data"),
    quickstart: Annotated[
        bool, typer.Option(help="Everything in one folder, on loopback, with a well-known key.")
    ] = False,
    sample: Annotated[bool, typer.Option(help="Create a sample repository and say what to try.")] = False,
    workers: Annotated[int, typer.Option(min=1, help="Processes that serve requests.")] = 2,
) -> None:
    """Serve the REST API."""
    environment = dict(os.environ)  # noqa: TID251  the configuration of a process
    host, port = _address(listen)
    if quickstart and host not in ("127.0.0.1", "localhost", "::1"):
        raise InvalidInputError(
            ErrorKind.INVALID_CONFIG, "--quickstart uses a published key: it listens on loopback only"
        )
    configure()
    config = from_environment(Config(data=data), environment)
    folder = DataFolder.open(config.data)
    try:
        asyncio.run(_set_up(config, folder, environment, quickstart=quickstart, sample=sample))
        os.environ[CONFIG_VARIABLE] = encode_config(config)  # noqa: TID251  handed to the workers
        if quickstart:
            _say_what_next(f"http://{host}:{port}", folder.path, sample=sample)
        Granian(
            "lakebed.server.worker:create_app",
            address=host,
            port=port,
            interface=Interfaces.ASGI,
            loop=Loops.uvloop,
            workers=workers,
            factory=True,
            log_access=False,
            websockets=False,
        ).serve()
    finally:
        folder.close()


async def _set_up(
    config: Config, folder: DataFolder, environment: dict[str, str], *, quickstart: bool, sample: bool
) -> None:
    """Create the first user, if there is none and somebody said who it is."""
    clock, ids = SystemClock(), SystemIds()
    async with open_engine(config, folder.layout) as wired:
        key = installation_key(config.installation_key, folder.layout.key, ids)
        auth = build_auth(wired.engine.parts.kv, key=key, clock=clock, ids=ids)
        if sample:
            await make_sample(wired.catalog, out)
        if await auth.setup.is_set_up():
            await auth.setup.require_key()
            return
        pair = _first_pair(environment)
        if pair is None and quickstart:
            pair = KeyPair(access_key_id=_QUICKSTART_KEY, secret_access_key=_QUICKSTART_SECRET)
        if pair is not None:
            await auth.setup.set_up(environment.get("LAKEBED_INSTALLATION_USER_NAME", "admin"), pair=pair)


def _say_what_next(endpoint: str, data: Path, *, sample: bool) -> None:
    out.print(f"Lakebed listens on [bold]{endpoint}[/], its data is in {data}. Stop it with Ctrl-C.\n")
    out.print("In another terminal ([dim].venv/bin/lakebed[/] in this folder is the command):\n")
    lines = [
        f"export LAKEBED_ENDPOINT={endpoint}",
        f"export LAKEBED_ACCESS_KEY_ID={_QUICKSTART_KEY}",
        f"export LAKEBED_SECRET_ACCESS_KEY={_QUICKSTART_SECRET}",
    ]
    if sample:
        lines += [
            f"lakebed log {REPO}/main",
            f"lakebed fs ls {REPO}/main/sales/",
            f"lakebed branch create {REPO}/try --source main",
            f"lakebed fs upload README.md {REPO}/try/notes.md",
            f"lakebed diff {REPO}/try",
            f'lakebed commit {REPO}/try -m "Add notes"',
            f"lakebed merge {REPO}/try {REPO}/main",
        ]
    for line in lines:
        out.print(f"  {line}", markup=False, soft_wrap=True)
    out.print()


def _first_pair(environment: dict[str, str]) -> KeyPair | None:
    access_key = environment.get("LAKEBED_INSTALLATION_ACCESS_KEY_ID")
    secret = environment.get("LAKEBED_INSTALLATION_SECRET_ACCESS_KEY")
    return KeyPair(access_key_id=access_key, secret_access_key=secret) if access_key and secret else None


def _address(listen: str) -> tuple[str, int]:
    host, separator, port = listen.rpartition(":")
    if not separator or not port.isdigit():
        raise InvalidInputError(ErrorKind.INVALID_CONFIG, f"--listen {listen!r} must be HOST:PORT")
    return host.strip("[]") or "127.0.0.1", int(port)
