"""A running server whose repositories lie in local files and on a real S3 server, and clients for it."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from typing import Any

import boto3
import httpx
import pytest
from botocore.config import Config

from lakebed.objects.settings import StoreSettings
from lakebed.testing.s3_server import make_bucket
from lakebed.testing.server_process import ServerProcess, free_port, running_server

_numbers = count(1)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The server, and REST requests to it."""

    process: ServerProcess
    own_url: str
    """Where nothing but S3 is served."""

    @property
    def url(self) -> str:
        return self.process.endpoint

    def rest(self, method: str, path: str, **options: Any) -> httpx.Response:
        key = (self.process.access_key, self.process.secret_key)
        return httpx.request(method, f"{self.url}/api/v1{path}", auth=key, **options)

    def client(self, **options: Any) -> Any:
        config = Config(retries={"max_attempts": 0}, s3={"addressing_style": "path"})
        return boto3.client(
            "s3",
            **{
                "endpoint_url": self.url,
                "aws_access_key_id": self.process.access_key,
                "aws_secret_access_key": self.process.secret_key,
                "region_name": "us-east-1",
                "config": config,
                **options,
            },
        )

    def repository(self, storage: str, **options: Any) -> str:
        name = f"lake-{storage}-{next(_numbers)}"
        namespace = f"local://{name}" if storage == "local" else f"s3://lakes/{name}"
        created = self.rest(
            "POST", "/repositories", json={"name": name, "storage_namespace": namespace, **options}
        )
        assert created.status_code == 201, created.text
        return name


@pytest.fixture(scope="session")
def endpoint(weed: StoreSettings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Endpoint]:
    make_bucket(weed, "lakes")
    port = free_port()
    environment = {
        "LAKEBED_STORAGE_S3_ENDPOINT": weed.s3_endpoint or "",
        "LAKEBED_STORAGE_S3_ACCESS_KEY_ID": weed.s3_access_key_id or "",
        "LAKEBED_STORAGE_S3_SECRET_ACCESS_KEY": weed.s3_secret_access_key or "",
        "LAKEBED_S3_DOMAIN": "s3.localhost",
        "LAKEBED_S3_LISTEN": f"127.0.0.1:{port}",
    }
    folder = tmp_path_factory.mktemp("lakebed") / "server"
    with running_server(folder, environment=environment) as process:
        own = f"http://127.0.0.1:{port}"
        # The second port opens a little later than the first.
        with httpx.Client(transport=httpx.HTTPTransport(retries=8)) as client:
            assert client.get(f"{own}/_health").status_code == 200
        yield Endpoint(process, own)


@pytest.fixture(scope="session")
def s3(endpoint: Endpoint) -> Any:
    return endpoint.client()


@pytest.fixture(scope="session", params=["local", "s3"])
def repo(endpoint: Endpoint, request: pytest.FixtureRequest) -> str:
    """A repository on each kind of storage; tests use keys of their own."""
    return endpoint.repository(request.param)


@pytest.fixture
def lake(endpoint: Endpoint) -> str:
    """A repository of one's own, in local files."""
    return endpoint.repository("local")
