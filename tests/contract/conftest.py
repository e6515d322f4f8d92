"""Servers of the replay, on local files and on a real S3 server.

Each scenario removes its repositories, so that recordings can share a server. `test_replay.py` checks that it is empty when a
recording begins.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import httpx
import pytest

from lakebed.env.clock import SystemClock
from lakebed.objects.s3.requests import S3Requests
from lakebed.objects.settings import StoreSettings
from lakebed.testing.s3_server import make_bucket, s3_server
from lakebed.testing.server_process import ServerProcess, running_server

_SOURCES: Final = {"in/a.csv": b"a,1\n", "in/sub/b.csv": b"b,2\n"}
"""What the recorded imports read."""


@pytest.fixture(scope="session")
def on_files(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server without repositories whose storage is local files."""
    with server_on_files(tmp_path_factory.mktemp("files")) as server:
        yield server


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[ServerProcess]:
    """The same, for a recording that takes permissions away."""
    with server_on_files(tmp_path) as server:
        yield server


@pytest.fixture(scope="session")
def on_s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server without repositories whose storage is an S3 server."""
    folder = tmp_path_factory.mktemp("s3")
    with s3_storage(folder / "storage") as storage, server_on_s3(folder / "server", storage) as server:
        yield server


@contextmanager
def s3_storage(folder: Path) -> Iterator[StoreSettings]:
    """Run an S3 server with an empty bucket `lake`, and the sources in `imports`."""
    with s3_server(folder) as settings:
        make_bucket(settings, "lake")
        make_bucket(settings, "imports")
        requests = S3Requests(settings.s3_place("imports", ""), SystemClock())
        for key, content in _SOURCES.items():
            assert requests.send("PUT", key, body=content).status == 200
        requests.close()
        yield settings


@contextmanager
def server_on_files(folder: Path) -> Iterator[ServerProcess]:
    """Start a server that may import the sources from a local folder."""
    for name, content in _SOURCES.items():
        source = folder / "imports" / name
        source.parent.mkdir(parents=True)
        source.write_bytes(content)
    with running_server(folder, quickstart=False) as server:
        yield _set_up(server)


@contextmanager
def server_on_s3(folder: Path, storage: StoreSettings) -> Iterator[ServerProcess]:
    """Start a server that may import the sources from the S3 server."""
    environment = {
        "LAKEBED_STORAGE_DEFAULT": "s3",
        "LAKEBED_STORAGE_S3_ENDPOINT": storage.s3_endpoint or "",
        "LAKEBED_STORAGE_S3_ACCESS_KEY_ID": storage.s3_access_key_id or "",
        "LAKEBED_STORAGE_S3_SECRET_ACCESS_KEY": storage.s3_secret_access_key or "",
        "LAKEBED_STORAGE_LOCAL_IMPORT_PREFIXES": "s3://imports/",
    }
    with running_server(folder, environment=environment, quickstart=False) as server:
        yield _set_up(server)


def _set_up(server: ServerProcess) -> ServerProcess:
    """Create the recorded user: a quickstart would create repositories too."""
    pair = {"access_key_id": server.access_key, "secret_access_key": server.secret_key}
    body = {"username": "admin", "key": pair}
    httpx.post(f"{server.endpoint}/api/v1/setup_lakefs", json=body, timeout=60).raise_for_status()
    return server
