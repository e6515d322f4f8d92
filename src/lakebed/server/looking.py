"""Opening an installation to look at it: beside whatever serves it, and without creating one that is not there.

The process that serves a data folder holds its lock so that no second one does the
background work. Looking needs none of that: the database and the local store are made
for several processes at once.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from lakebed.errors import ErrorKind, InvalidInputError
from lakebed.server.config import Config
from lakebed.server.data_folder import Layout, is_data_folder
from lakebed.server.installation import open_engine
from lakebed.server.wiring import Wired

DataDirOption = Annotated[
    str | None,
    typer.Option(
        "--data-dir",
        metavar="DIR",
        help="The data folder that `lakebed run --data` was given; otherwise as LAKEBED_DATA says.",
    ),
]


@asynccontextmanager
async def look_at(config: Config) -> AsyncIterator[tuple[Wired, Layout]]:
    """Yield the engine of an installation, and where its data folder is.

    Raises:
        InvalidInputError: `INVALID_CONFIG`: there is no installation.
    """
    if is_data_folder(config.data):
        layout = Layout(config.data.absolute())
        async with open_engine(config, layout, looking=True) as wired:
            yield wired, layout
        return
    if config.kv_url is None:
        raise InvalidInputError(
            ErrorKind.INVALID_CONFIG,
            f"{config.data} is no data folder: name the one that the server uses with --data-dir, "
            "or its database with LAKEBED_DATABASE",
        )
    # The installation is elsewhere; a server on this machine would have made a folder for its cache.
    with TemporaryDirectory(prefix="lakebed-") as folder:
        layout = Layout(Path(folder))
        layout.tmp.mkdir()
        async with open_engine(config, layout, looking=True) as wired:
            yield wired, layout
