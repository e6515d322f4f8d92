"""`lakebed setup`: the first administrator, created where the data is and not over the network."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated

import typer
from rich.console import Console

from lakebed.auth.auth import Auth, build_auth
from lakebed.env.clock import SystemClock
from lakebed.env.ids import SystemIds
from lakebed.errors import AlreadyExistsError, ErrorKind
from lakebed.model.auth import IssuedKey
from lakebed.server.config import Config, load_config
from lakebed.server.data_folder import DataFolder, Layout
from lakebed.server.installation import open_engine
from lakebed.server.installation_key import installation_key
from lakebed.server.options import DataOption, FileOption, environment
from lakebed.server.wiring import Wired

UserNameOption = Annotated[
    str | None, typer.Option("--user-name", help="The administrator's name.", show_default="admin")
]


def setup(*, data: DataOption = None, config: FileOption = None, user_name: UserNameOption = None) -> None:
    """Create the first user, who may do everything, and print the access key: this once.

    The server must not be running; while it runs, set it up over its API.
    """
    loaded = load_config(flags={"data": data}, environment=environment(), file=config)
    folder = DataFolder.open(loaded.data)
    try:
        issued = asyncio.run(_set_up(loaded, folder.layout, user_name or loaded.first_user.name))
    finally:
        folder.close()
    out = Console(highlight=False)
    out.print(
        f"{folder.path} is set up. Keep this key pair: the secret is not shown again.\n", soft_wrap=True
    )
    for line in (
        f"user               {issued.user}",
        f"access key id      {issued.id}",
        f"secret access key  {issued.secret_access_key}",
    ):
        out.print(f"  {line}", markup=False, soft_wrap=True)
    out.print(f"\nStart the server with: lakebed run --data {loaded.data}", markup=False, soft_wrap=True)


@asynccontextmanager
async def opened(config: Config, layout: Layout) -> AsyncIterator[tuple[Wired, Auth]]:
    """Yield the engine and the users of a data folder that this process holds."""
    clock, ids = SystemClock(), SystemIds()
    async with open_engine(config, layout) as wired:
        key = installation_key(config.installation_key, layout.key, ids)
        yield wired, build_auth(wired.engine.parts.kv, key=key, clock=clock, ids=ids)


async def _set_up(config: Config, layout: Layout, user_name: str) -> IssuedKey:
    async with opened(config, layout) as (_, auth):
        if await auth.setup.is_set_up():
            raise AlreadyExistsError(
                ErrorKind.ALREADY_SET_UP,
                f"{layout.path} is already set up: an administrator can create users and access keys with `lakebed auth`",
            )
        return await auth.setup.set_up(user_name, pair=config.first_user.pair)
