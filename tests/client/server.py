"""A real server process for the tests of everything that talks to one."""

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

ACCESS_KEY = "AKIAIOSFOLQUICKSTART"
SECRET_KEY = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
_START_SECONDS_MAX = 60


@dataclass(frozen=True)
class Server:
    endpoint: str
    outside: Path
    """A folder that objects may be imported from."""

    @property
    def environment(self) -> dict[str, str]:
        """What a client needs to find it."""
        return {
            "LAKEBED_ENDPOINT": self.endpoint,
            "LAKEBED_ACCESS_KEY_ID": ACCESS_KEY,
            "LAKEBED_SECRET_ACCESS_KEY": SECRET_KEY,
        }


@contextmanager
def running_server(folder: Path) -> Iterator[Server]:
    """Run a server with its data in `folder` on a free port of loopback, until the block ends."""
    port, outside, log = _free_port(), folder / "outside", folder / "server.log"
    outside.mkdir()
    command = [str(Path(sys.executable).parent / "lakebed"), "run", "--quickstart", "--workers", "1"]
    command += ["--data", str(folder / "data"), "--listen", f"127.0.0.1:{port}"]
    environment = {
        "PATH": str(Path(sys.executable).parent),
        "LAKEBED_STORAGE_LOCAL_IMPORT_PREFIXES": str(outside),
    }
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, env=environment)
        try:
            server = Server(endpoint=f"http://127.0.0.1:{port}", outside=outside)
            _wait(server, process, log)
            yield server
        finally:
            process.terminate()
            process.wait(timeout=_START_SECONDS_MAX)


def _wait(server: Server, process: "subprocess.Popen[bytes]", log: Path) -> None:
    end = time.monotonic() + _START_SECONDS_MAX
    while time.monotonic() < end:
        assert process.poll() is None, f"the server ended: {log.read_text()[-2000:]}"
        try:
            if httpx.get(f"{server.endpoint}/_health").is_success:
                return
        except httpx.TransportError:
            time.sleep(0.05)
    raise TimeoutError(f"the server did not start: {log.read_text()[-2000:]}")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
