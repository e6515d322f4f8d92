"""A running server's HTTP side for benchmarks: plain requests, wrk, and how much memory its processes have."""

import base64
import http.client
import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from lakebed.testing.server_process import ServerProcess

MIB = 2**20


def require_wrk() -> None:
    """End the program with what to do if wrk is not there."""
    if shutil.which("wrk") is None:
        sys.exit("this needs wrk: install Debian's package of that name")


class Api:
    """Plain requests to a server."""

    def __init__(self, server: ServerProcess) -> None:
        where = urlsplit(server.endpoint)
        self.endpoint = server.endpoint
        self._connection = http.client.HTTPConnection(where.hostname or "", where.port, timeout=600)
        key = f"{server.access_key}:{server.secret_key}".encode()
        self.authorization = "Basic " + base64.b64encode(key).decode()

    def __call__(self, method: str, path: str, body: Any = None) -> Any:
        data = json.dumps(body) if body is not None else None
        headers = {"Authorization": self.authorization, "Content-Type": "application/json"}
        self._connection.request(method, f"/api/v1/repositories{path}", data, headers)
        answer = self._connection.getresponse()
        text = answer.read()
        if answer.status >= 300:
            raise RuntimeError(f"{method} {path}: {answer.status} {text[:300]!r}")
        return text

    def read(self, path: str) -> Any:
        """Return what a GET answers."""
        return json.loads(self("GET", path))

    def send_large(self, path: str, size: int) -> None:
        """Upload `size` bytes as they are made."""
        chunk = bytes(MIB)
        headers = {"Authorization": self.authorization, "Content-Length": str(size)}
        parts = (chunk for _ in range(size // MIB))
        self._connection.request("POST", f"/api/v1/repositories{path}", parts, headers)
        answer = self._connection.getresponse()
        text = answer.read()
        if answer.status != 201:
            raise RuntimeError(f"upload: {answer.status} {text[:300]!r}")

    def drain(self, path: str) -> int:
        """Download, and return how many bytes came."""
        headers = {"Authorization": self.authorization}
        self._connection.request("GET", f"/api/v1/repositories{path}", headers=headers)
        answer = self._connection.getresponse()
        count = 0
        while chunk := answer.read(4 * MIB):
            count += len(chunk)
        return count


class Load:
    """wrk against one server."""

    def __init__(self, api: Api, repo: str, seconds: int) -> None:
        self._api = api
        self._repo = repo
        self.seconds = seconds

    def __call__(
        self,
        method: str,
        path: str,
        *,
        below: int = 1,
        connections: int = 32,
        body: str = '""',
        content_type: str = "application/octet-stream",
    ) -> dict[str, Any]:
        """Run `path`, a Lua expression in which i counts and r is a random number below `below`."""
        script = f"""math.randomseed(7)
local i = 0
local headers = {{["Authorization"] = "{self._api.authorization}", ["Content-Type"] = "{content_type}"}}
request = function()
  i = i + 1
  local r = math.random(0, {below} - 1)
  return wrk.format("{method}", "/api/v1/repositories/{self._repo}" .. {path}, headers, {body})
end"""
        with tempfile.NamedTemporaryFile("w", suffix=".lua") as file:
            file.write(script)
            file.flush()
            command = ["wrk", "-t1", f"-c{connections}", f"-d{self.seconds}s", "--latency", "-s", file.name]
            out = subprocess.run([*command, self._api.endpoint], capture_output=True, text=True, check=True)
        bad = re.search(r"Non-2xx or 3xx responses: (\d+)", out.stdout)
        return {
            "rate": float(found(r"Requests/sec:\s+([\d.]+)", out.stdout)),
            "p99": found(r"99%\s+([\d.]+\w+)", out.stdout),
            "bad": int(bad[1]) if bad else 0,
        }


def memory_of(server: ServerProcess, field: str = "RssAnon") -> list[int]:
    """Return a figure of /proc for each of a server's processes, in MiB."""
    children = subprocess.run(
        ["pgrep", "-P", str(server.process.pid)], capture_output=True, text=True, check=True
    ).stdout.split()
    figures = []
    for child in children:
        status = Path(f"/proc/{child}/status").read_text()
        figures.append(int(found(rf"{field}:\s+(\d+) kB", status)) // 1024)
    return figures


def found(pattern: str, text: str) -> str:
    """Return what the pattern's first group matches."""
    match = re.search(pattern, text)
    assert match is not None, f"{pattern} in {text[-500:]}"
    return match[1]
