"""Objects of 1 GiB through the S3 endpoint, beside what the machine and the storage underneath can do.

Every ratio is of figures from this run. The client is as cheap as one can be (presigned
requests, `sendfile`, nothing looked at), and still has half of the machine for itself.
"""

import hashlib
import os
import shutil
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import boto3
import httpx
from botocore.config import Config

from bench.clock import Stopwatch
from bench.figure import Figure
from bench.lab import Lab
from bench.memory import AnonymousPeak
from lakebed.env.work import ThreadWorkers
from lakebed.objects.settings import StoreSettings
from lakebed.testing.s3_server import make_bucket, s3_server
from lakebed.testing.server_process import ServerProcess, running_server

_MIB = 2**20
_BLOCK = 1 * _MIB
_FULL = 1024 * _MIB
_RUNS = 3
_BUCKET = "plain"


@dataclass(frozen=True, slots=True)
class _Place:
    """A bucket, by the client that signs for it."""

    signer: Any
    bucket: str

    def url(self, operation: str, key: str) -> str:
        url: str = self.signer.generate_presigned_url(operation, {"Bucket": self.bucket, "Key": key})
        return url


async def s3_large(lab: Lab) -> list[Figure]:
    """PUT and GET one large object: local files, and an S3 server underneath."""
    threads = ThreadWorkers(1)
    try:
        return await threads.run(_measure, lab)
    finally:
        threads.close()


def _measure(lab: Lab) -> list[Figure]:
    folder = lab.work / "s3_large"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    try:
        source = folder / "source"
        size = _make(source, lab.count(_FULL))
        hashing = _rate(size, lambda: _hash(source))
        syncing = _rate(size, lambda: _write_synced(source, folder / "copy"))
        cached = _rate(size, lambda: _read(folder / "copy"))
        (folder / "copy").unlink()
        with s3_server(folder / "weed") as settings, _server(folder, settings) as server:
            figures = _figures(server, settings, source, hashing=hashing, syncing=syncing, cached=cached)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return figures


def _figures(
    server: ServerProcess,
    settings: StoreSettings,
    source: Path,
    *,
    hashing: float,
    syncing: float,
    cached: float,
) -> list[Figure]:
    size = source.stat().st_size
    local, on_s3 = _place(server, "local", "local://bench"), _place(server, "on-s3", f"s3://{_BUCKET}/bench")
    plain = _Place(
        _signer(settings.s3_endpoint, settings.s3_access_key_id, settings.s3_secret_access_key), _BUCKET
    )
    with AnonymousPeak(server.process.pid) as memory:
        local_put = _rate(size, lambda: _put(local.url("put_object", "main/large"), source))
        local_get = _rate(size, lambda: _get(local.url("get_object", "main/large")))
        plain_put = _rate(size, lambda: _put(plain.url("put_object", "large"), source))
        s3_put = _rate(size, lambda: _put(on_s3.url("put_object", "main/large"), source))
        plain_parts = _rate(size, lambda: plain.signer.upload_file(str(source), plain.bucket, "parts"))
        s3_parts = _rate(size, lambda: on_s3.signer.upload_file(str(source), on_s3.bucket, "main/parts"))
        plain_get = _rate(size, lambda: _get(plain.url("get_object", "large")))
        s3_get = _rate(size, lambda: _get(on_s3.url("get_object", "main/large")))
    slower = min(hashing, syncing)
    rate = {"unit": "MiB/s"}
    return [
        Figure(
            name="PUT, local files",
            value=local_put,
            aim=0.7 * slower,
            note=f"{local_put / slower:.2f} of the slower of MD5 ({hashing:,.0f}) and a synced copy ({syncing:,.0f})",
            **rate,
        ),
        Figure(
            name="GET, local files",
            value=local_get,
            aim=min(800.0, cached / 2),
            note=f"{local_get / cached:.2f} of a read from the disk cache ({cached:,.0f})",
            **rate,
        ),
        Figure(
            name="PUT, S3 underneath",
            value=s3_put,
            aim=plain_put / 2,
            note=_beside(s3_put, plain_put),
            **rate,
        ),
        Figure(
            name="the same in parts, by boto3",
            value=s3_parts,
            aim=plain_parts / 2,
            note=_beside(s3_parts, plain_parts),
            **rate,
        ),
        Figure(name="GET, S3 underneath", value=s3_get, note=_beside(s3_get, plain_get), **rate),
        Figure(
            name="memory that the server took for all of it",
            value=memory.grown_mib,
            unit="MiB",
            note="anonymous memory of its processes, the most of samples, less what they had before",
        ),
    ]


def _beside(ours: float, theirs: float) -> str:
    return f"{ours / theirs:.2f} of what that server does with the same client ({theirs:,.0f})"


@contextmanager
def _server(folder: Path, settings: StoreSettings) -> Iterator[ServerProcess]:
    make_bucket(settings, _BUCKET)
    environment = {
        "LAKEBED_STORAGE_S3_ENDPOINT": settings.s3_endpoint or "",
        "LAKEBED_STORAGE_S3_ACCESS_KEY_ID": settings.s3_access_key_id or "",
        "LAKEBED_STORAGE_S3_SECRET_ACCESS_KEY": settings.s3_secret_access_key or "",
    }
    with running_server(folder / "lakebed", environment=environment) as server:
        yield server


def _place(server: ServerProcess, name: str, namespace: str) -> _Place:
    created = httpx.post(
        f"{server.endpoint}/api/v1/repositories",
        json={"name": name, "storage_namespace": namespace},
        auth=(server.access_key, server.secret_key),
    )
    created.raise_for_status()
    return _Place(_signer(server.endpoint, server.access_key, server.secret_key), name)


def _signer(endpoint: str | None, key: str | None, secret: str | None) -> Any:
    return boto3.client(
        "s3",
        endpoint_url=endpoint,
        aws_access_key_id=key,
        aws_secret_access_key=secret,
        region_name="us-east-1",
        config=Config(signature_version="s3v4", s3={"addressing_style": "path"}),
    )


def _make(path: Path, size: int) -> int:
    with path.open("wb") as file:
        for start in range(0, size, _BLOCK):
            file.write(_noise(start, min(_BLOCK, size - start)))
    return size


def _noise(seed: int, size: int) -> bytes:
    """Return bytes that do not compress."""
    return hashlib.shake_128(b"%d" % seed).digest(size)


def _rate(size: int, work: Callable[[], object]) -> float:
    """Return the best of a few runs in MiB a second: what disturbs a run only ever slows it down."""
    seconds = []
    for _ in range(_RUNS):
        with Stopwatch() as watch:
            work()
        seconds.append(watch.seconds)
    return size / _MIB / min(seconds)


def _blocks(path: Path) -> Iterator[memoryview]:
    buffer = memoryview(bytearray(_BLOCK))
    with path.open("rb", buffering=0) as file:
        while count := file.readinto(buffer):
            yield buffer[:count]


def _hash(path: Path) -> None:
    digest = hashlib.md5(usedforsecurity=False)
    for block in _blocks(path):
        digest.update(block)


def _write_synced(source: Path, target: Path) -> None:
    with target.open("wb", buffering=0) as file:
        for block in _blocks(source):
            file.write(block)
        os.fsync(file.fileno())


def _read(path: Path) -> None:
    for _ in _blocks(path):
        pass


def _put(url: str, source: Path) -> None:
    size = source.stat().st_size
    with _sent(url, "PUT", f"content-length: {size}\r\n") as connection, source.open("rb") as file:
        connection.sendfile(file)
        answer = connection.recv(_BLOCK)
    assert answer.startswith(b"HTTP/1.1 200"), answer


def _get(url: str) -> None:
    buffer = memoryview(bytearray(_BLOCK))
    with _sent(url, "GET", "") as connection:
        head = connection.recv(_BLOCK)
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
