"""Fixtures named for the state they hold."""

import gc
from collections.abc import Iterator

import pytest
from hypothesis import settings

pytest.register_assert_rewrite("lakebed.testing")

from lakebed.objects.settings import StoreSettings  # noqa: E402  after the line above
from lakebed.testing.postgres import PostgresServer, running_postgres  # noqa: E402
from lakebed.testing.s3_server import s3_server  # noqa: E402

# Named here and not in each folder, so that the folders share one server.
pytest_plugins = ["tests.client.fixtures"]

settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile("ci")


# A name that a person can read.
_ID_CHARACTERS_MAX = 120


def pytest_make_parametrize_id(val: object) -> str | None:
    """Name long values by how they begin: every name goes to each process of the run, and into its environment."""
    if isinstance(val, str | bytes) and len(val) > _ID_CHARACTERS_MAX:
        return f"{val[:40]!a}...{len(val)}"
    return None


def pytest_collection_finish() -> None:
    """Spare the collector of garbage what stays until the end: modules and ten thousand tests, half a second each time."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A running PostgreSQL, shared: a test that stops it starts its own."""
    with running_postgres() as server:
        yield server


@pytest.fixture(scope="session")
def weed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StoreSettings]:
    """A running S3 server, shared: it takes three seconds to begin. Whoever uses it has a bucket or a folder in one."""
    with s3_server(tmp_path_factory.mktemp("weed")) as settings:
        yield settings
