"""The server as clients meet it: `lakebed run` and wrk on the same machine, so that no cache of answers can win.

    python -m bench.serving [--objects 200000] [--gib 10] [--seconds 4]

Prints Markdown: reads of a clean tree and of the same with 1,000 staged entries over it, folders of 1,000
different prefixes, downloads of 20,000 different objects, memory with many objects open, and (with --gib)
an upload and a download of one large object with the server's memory meanwhile. Needs wrk (Debian's package).
"""

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.over_http import MIB, Api, Load, memory_of, require_wrk
from lakebed.testing.server_process import ServerProcess, running_server

_REPO = "serving"
_FOLDERS = 1000
_DOWNLOADS = 20_000
_STAGED = 1000
_BATCH = 10_000


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--objects", type=int, default=200_000)
    parser.add_argument("--gib", type=int, default=0, help="also move one object of so many GiB")
    parser.add_argument("--seconds", type=int, default=4)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--work", type=Path, default=Path("/var/tmp/lakebed-serving"))
    arguments = parser.parse_args()
    require_wrk()
    arguments.work.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory(dir=arguments.work) as folder,
        running_server(Path(folder), workers=arguments.workers) as server,
    ):
        _measure(server, arguments)


def _measure(server: ServerProcess, arguments: argparse.Namespace) -> None:
    api = Api(server)
    load = Load(api, _REPO, arguments.seconds)
    _fill(api, server, arguments.objects)
    print("| what | rate | p99 | beside | refused |\n|---|--:|--:|--:|--:|")
    clean = {name: read(load) for name, read in _reads(arguments.objects).items()}
    for name, figure in clean.items():
        _row(name, figure)
    _stage(api, server, [_path(n * (arguments.objects // _STAGED)) + "-new" for n in range(_STAGED)])
    for name, read in _reads(arguments.objects).items():
        figure = read(load)
        _row(
            f"{name}, with {_STAGED:,} staged", figure, f"{figure['rate'] / clean[name]['rate']:.2f} of clean"
        )
    memory = memory_of(server)
    _row("upload of 1 KiB", load("POST", _LUA_UPLOAD, body='string.rep("x", 1024)'))
    _fill_downloads(load)
    _row(f"download, {_DOWNLOADS:,} different", load("GET", _LUA_DOWNLOAD, below=_DOWNLOADS))
    print(f"\nMemory of the workers with {arguments.objects:,} objects (RssAnon): {memory} MiB.")
    if arguments.gib:
        _move_large(api, server, arguments.gib * 2**30)


_LUA_UPLOAD = 'string.format("/branches/main/objects?path=up%%2F%08d", i)'
_LUA_DOWNLOAD = 'string.format("/refs/main/objects?path=down%%2F%05d", r)'


def _reads(objects: int) -> dict[str, Callable[[Load], dict[str, Any]]]:
    lua_path = "t%%2F%03d%%2F%08d"
    stat = f'string.format("/refs/main/objects/stat?path={lua_path}", r % {_FOLDERS}, r)'
    page = f'string.format("/refs/main/objects/ls?amount=1000&after={lua_path}", r % {_FOLDERS}, r)'
    folder = 'string.format("/refs/main/objects/ls?amount=100&delimiter=%%2F&prefix=s%%2F%03d%%2F", r)'
    return {
        "stat": lambda load: load("GET", stat, below=objects),
        "page of 1,000": lambda load: load("GET", page, below=objects, connections=8),
        f"folders below one of {_FOLDERS:,} prefixes": lambda load: load(
            "GET", folder, below=_FOLDERS, connections=8
        ),
    }


def _path(number: int) -> str:
    return f"t/{number % _FOLDERS:03d}/{number:08d}"


def _fill(api: Api, server: ServerProcess, objects: int) -> None:
    namespace = {"name": _REPO, "storage_namespace": f"local://{_REPO}", "default_branch": "main"}
    api("POST", "", namespace)
    for start in range(0, objects, _BATCH):
        _stage(api, server, [_path(n) for n in range(start, min(start + _BATCH, objects))])
    folders = [
        f"s/{n % _FOLDERS:03d}/{n // _FOLDERS:03d}/{k}" for n in range(_FOLDERS * 20) for k in range(5)
    ]
    for start in range(0, len(folders), _BATCH):
        _stage(api, server, folders[start : start + _BATCH])
    api("POST", f"/{_REPO}/branches/main/commits", {"message": "filled"})


def _stage(api: Api, server: ServerProcess, paths: list[str]) -> None:
    entries = [
        {
            "path": path,
            "physical_address": f"local://{server.imports}/{index}",
            "checksum": f"{index:032x}",
            "size_bytes": 100,
        }
        for index, path in enumerate(paths)
    ]
    api("POST", f"/{_REPO}/branches/main/staging/entries", {"entries": entries})


def _fill_downloads(load: Load) -> None:
    # Each request takes the next name; a run begins where the one before ended, or a little earlier.
    sent = 0.0
    while sent < 1.2 * _DOWNLOADS:
        path = f'string.format("/branches/main/objects?path=down%%2F%05d", (i + {int(sent * 0.9)}) % {_DOWNLOADS})'
        sent += load("POST", path, body='string.rep("x", 1024)')["rate"] * load.seconds


def _move_large(api: Api, server: ServerProcess, size: int) -> None:
    before = memory_of(server)
    started = time.monotonic()
    api.send_large(f"/{_REPO}/branches/main/objects?path=large", size)
    sent = time.monotonic() - started
    after_upload = memory_of(server)
    started = time.monotonic()
    got = api.drain(f"/{_REPO}/refs/main/objects?path=large")
    taken = time.monotonic() - started
    assert got == size
    print(
        f"\nOne object of {size / 2**30:.0f} GiB: up {size / MIB / sent:,.0f} MiB/s, down "
        f"{size / MIB / taken:,.0f} MiB/s; RssAnon before, after the upload, after the download: "
        f"{before}, {after_upload}, {memory_of(server)} MiB (peak resident {memory_of(server, 'VmHWM')} MiB)."
    )


def _row(name: str, figure: dict[str, Any], beside: str = "") -> None:
    print(f"| {name} | {figure['rate']:,.0f} /s | {figure['p99']} | {beside} | {figure['bad']} |", flush=True)


if __name__ == "__main__":
    main()
