"""A real `lakebed run --quickstart` for tests: a process on a free loopback port, ended with the test run."""

import os
import signal
import socket
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from lakebed.server.tls import Tls

ACCESS_KEY = "AKIAIOSFOLQUICKSTART"
SECRET_KEY = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"

_START_SECONDS = 180.0
_STOP_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class ServerProcess:
    """A running server."""

    endpoint: str
    folder: Path
    imports: Path
    """A folder that objects may be imported from."""
    process: "subprocess.Popen[bytes]"
    access_key: str = ACCESS_KEY
    secret_key: str = SECRET_KEY

    @property
    def client_environment(self) -> dict[str, str]:
        """What a client needs to find it."""
        return {
            "LAKEBED_ENDPOINT": self.endpoint,
            "LAKEBED_ACCESS_KEY_ID": self.access_key,
            "LAKEBED_SECRET_ACCESS_KEY": self.secret_key,
        }


@contextmanager
def running_server(
    folder: Path,
    *,
    workers: int = 1,
    environment: Mapping[str, str] | None = None,
    tls: Tls | None = None,
    flags: Sequence[str] = (),
    quickstart: bool = True,
    descriptors: int | None = None,
    within: Sequence[str] = (),
) -> Iterator[ServerProcess]:
    """Start a server on an empty folder, or on what another left there; wait until it answers, and end it afterwards.

    Without `quickstart` nobody has set it up. `descriptors` is the most that each of its processes may open.
    `within` is a command that runs commands.
    """
    imports = folder / "imports"
    imports.mkdir(parents=True, exist_ok=True)
    port = free_port()
    endpoint = f"{'https' if tls else 'http'}://127.0.0.1:{port}"
    trusted = ssl.create_default_context(cafile=tls.cert) if tls else None
    with (folder / "server.log").open("ab") as log:
        process = subprocess.Popen(
            [
                *within,
                *(("prlimit", f"--nofile={descriptors}", "--") if descriptors else ()),
                str(Path(sys.executable).parent / "lakebed"),
                "run",
                *(("--quickstart",) if quickstart else ()),
                *(("--no-sample",) if quickstart and "--sample" not in flags else ()),
                *("--data", str(folder / "data")),
                *("--listen", f"127.0.0.1:{port}"),
                *("--workers", str(workers)),
                *(("--tls-cert", str(tls.cert), "--tls-key", str(tls.key)) if tls else ()),
                *flags,
            ],
            stdout=log,
            stderr=subprocess.STDOUT,
            env={
                **os.environ,  # noqa: TID251  the child inherits what the test run has
                "LAKEBED_STORAGE_LOCAL_IMPORT_PREFIXES": str(imports),
                **(environment or {}),
            },
        )
        try:
            _await_health(endpoint, process, folder / "server.log", trusted)
            yield ServerProcess(endpoint, folder, imports, process)
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def free_port() -> int:
    """Return a port of loopback that nobody uses now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _await_health(
    endpoint: str, process: "subprocess.Popen[bytes]", log: Path, trusted: ssl.SSLContext | None
) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline:
        if process.poll() is not None:
            break
        try:
            with urllib.request.urlopen(f"{endpoint}/_health", timeout=5, context=trusted):
                return
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            time.sleep(0.05)
    raise RuntimeError(f"the server did not start:\n{log.read_text(errors='replace')}")
