"""The REST API in this process, and as a server of its own for the official clients."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from lakebed.testing.asgi import AsgiClient
from lakebed.testing.rest import Rest, open_rest
from lakebed.testing.server_process import ServerProcess, running_server


@pytest.fixture
async def rest() -> AsyncIterator[Rest]:
    """The API over an empty repository `lake`, set up."""
    async with open_rest() as opened:
        yield opened


@pytest.fixture
def admin(rest: Rest) -> AsgiClient:
    """Requests of an administrator."""
    return rest.admin


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server process with the quickstart's key."""
    folder: Path = tmp_path_factory.mktemp("server")
    with running_server(folder) as running:
        yield running
