"""A server over local files and over a real S3 server, and the cheapest client there is.

The client signs a URL and pushes bytes through a socket. It looks at nothing, so that what
is measured is the server; it still takes its share of the machine.
"""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import boto3
import httpx
from botocore.config import Config

from lakebed.objects.settings import StoreSettings
from lakebed.testing.s3_server import make_bucket, s3_server
from lakebed.testing.server_process import ServerProcess, running_server

BLOCK = 2**20
_BUCKET = "plain"


@dataclass(frozen=True, slots=True)
class Place:
    """Keys that begin alike in one bucket, and boto3 for them."""

    boto3: Any
    bucket: str
    prefix: str

    def url(self, operation: str, name: str, **parameters: object) -> str:
        """Return a presigned URL."""
        given = {"Bucket": self.bucket, "Key": self.key(name), **parameters}
        url: str = self.boto3.generate_presigned_url(operation, given)
        return url

    def key(self, name: str) -> str:
        return f"{self.prefix}{name}"


@dataclass(frozen=True, slots=True)
class S3Site:
    """Where objects can be put."""

    server: ServerProcess
    local: Place
    """Through us, into local files."""
    on_s3: Place
    """Through us, into the S3 server."""
    plain: Place
    """Into the S3 server, past us."""


@contextmanager
def s3_site(folder: Path) -> Iterator[S3Site]:
    """Run both servers with their data in `folder`."""
    with s3_server(folder / "weed") as settings:
        make_bucket(settings, _BUCKET)
        environment = {
            "LAKEBED_STORAGE_S3_ENDPOINT": settings.s3_endpoint or "",
            "LAKEBED_STORAGE_S3_ACCESS_KEY_ID": settings.s3_access_key_id or "",
            "LAKEBED_STORAGE_S3_SECRET_ACCESS_KEY": settings.s3_secret_access_key or "",
        }
        with running_server(folder / "lakebed", environment=environment) as server:
            yield S3Site(
                server=server,
                local=_repository(server, "local", "local://bench"),
                on_s3=_repository(server, "on-s3", f"s3://{_BUCKET}/bench"),
                plain=_bucket(settings),
            )


def put(url: str, blocks: Iterator[memoryview], *, size_bytes: int) -> str:
    """Send an object, or a part of one; return its ETag."""
    with _sent(url, "PUT", f"content-length: {size_bytes}\r\n") as connection:
        for block in blocks:
            connection.sendall(block)
        answer = connection.recv(BLOCK)
    assert answer.startswith(b"HTTP/1.1 200"), answer
    lines = answer.decode("latin-1").splitlines()
    return next(line.partition(":")[2].strip() for line in lines if line.lower().startswith("etag:"))


def get(url: str) -> None:
    """Read an object to its end, and forget it."""
    buffer = memoryview(bytearray(BLOCK))
    with _sent(url, "GET", "") as connection:
        head = connection.recv(BLOCK)
        assert head.startswith(b"HTTP/1.1 200"), head
        while connection.recv_into(buffer):
            pass


@contextmanager
def _sent(url: str, method: str, headers: str) -> Iterator[socket.socket]:
    """Yield a connection on which the head of a request has been sent."""
    parts = urlsplit(url)
    with socket.create_connection((parts.hostname or "", parts.port or 80)) as connection:
        head = (
            f"{method} {parts.path}?{parts.query} HTTP/1.1\r\nhost: {parts.netloc}\r\nconnection: close\r\n"
        )
        connection.sendall(f"{head}{headers}\r\n".encode())
        yield connection


def _repository(server: ServerProcess, name: str, namespace: str) -> Place:
    created = httpx.post(
        f"{server.endpoint}/api/v1/repositories",
        json={"name": name, "storage_namespace": namespace},
        auth=(server.access_key, server.secret_key),
    )
    created.raise_for_status()
    return Place(_boto3(server.endpoint, server.access_key, server.secret_key), name, "main/")


def _bucket(settings: StoreSettings) -> Place:
    key, secret = settings.s3_access_key_id or "", settings.s3_secret_access_key or ""
    return Place(_boto3(settings.s3_endpoint or "", key, secret), _BUCKET, "")


def _boto3(endpoint: str, key: str, secret: str) -> Any:
    return boto3.client(
        "s3",
        endpoint_url=endpoint,
        aws_access_key_id=key,
        aws_secret_access_key=secret,
        region_name="us-east-1",
        config=Config(signature_version="s3v4", s3={"addressing_style": "path"}),
    )
