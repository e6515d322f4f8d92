"""Fixtures that the tests of the client, of fsspec and of the command line share."""

from collections.abc import Iterator

import pytest

from lakebed.client.client import Client
from lakebed.client.repo import Repo
from lakebed.env.ids import SystemIds
from lakebed.testing.server_process import ACCESS_KEY, SECRET_KEY, ServerProcess, running_server


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A running server; its repositories are those of every test, so names must not be counted."""
    with running_server(tmp_path_factory.mktemp("server")) as running:
        yield running


@pytest.fixture(scope="session")
def client(server: ServerProcess) -> Iterator[Client]:
    with Client(server.endpoint, ACCESS_KEY, SECRET_KEY) as connected:
        yield connected


@pytest.fixture
def repo(client: Client) -> Repo:
    """A new repository with an empty branch `main`."""
    made = client.repo(f"repo-{SystemIds().token()}")
    made.create(f"local://{made.name}")
    return made
