"""The REST API in this process, and as a server of its own for the official clients."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import lakefs
import pytest

from lakebed.objects.settings import StoreSettings
from lakebed.testing.asgi import AsgiClient
from lakebed.testing.rest import Rest, open_rest
from lakebed.testing.s3_server import make_bucket
from lakebed.testing.server_process import ServerProcess, running_server
from tests.api.clients import high_level


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


@pytest.fixture(scope="session")
def s3_settings(weed: StoreSettings) -> StoreSettings:
    """A real S3 server with a bucket `lake`."""
    make_bucket(weed, "lake")
    return weed


@pytest.fixture(scope="session")
def s3_backed(
    s3_settings: StoreSettings, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ServerProcess]:
    """A server process whose default storage is the S3 server."""
    environment = {
        "LAKEBED_STORAGE_DEFAULT": "s3",
        "LAKEBED_STORAGE_S3_ENDPOINT": s3_settings.s3_endpoint or "",
        "LAKEBED_STORAGE_S3_ACCESS_KEY_ID": s3_settings.s3_access_key_id or "",
        "LAKEBED_STORAGE_S3_SECRET_ACCESS_KEY": s3_settings.s3_secret_access_key or "",
    }
    with running_server(tmp_path_factory.mktemp("server"), environment=environment) as running:
        yield running


@pytest.fixture(scope="session")
def on_s3(s3_backed: ServerProcess) -> lakefs.Branch:
    """The default branch of the repository `lake` on the S3 server."""
    client = high_level(s3_backed)
    return lakefs.Repository("lake", client=client).create("s3://lake/repo").branch("main")
