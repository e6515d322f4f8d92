"""`lakebed diagnostics`: what somebody who helps from afar needs to know, in one file, without secrets.

It changes nothing, and works beside a running server. What cannot be found out is said
in the bundle instead of ending the command: an installation that needs help may have a
database that does not open.
"""

import asyncio
import os
import platform
import shutil
import sys
import zipfile
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import distributions, version
from pathlib import Path
from typing import Annotated, Any, Final

import httpx
import msgspec
import typer
from rich.console import Console

from lakebed.env.clock import SECOND, SystemClock
from lakebed.errors import LakebedError
from lakebed.limits import MIB
from lakebed.server.config import Config, load_config
from lakebed.server.data_folder import Layout, is_data_folder
from lakebed.server.describe import describe
from lakebed.server.effective import Effective, effective
from lakebed.server.inventory import count_database, count_repositories
from lakebed.server.looking import DataDirOption, look_at
from lakebed.server.options import FileOption, environment
from lakebed.server.scrub import scrub
from lakebed.server.settings import SETTINGS
from lakebed.server.wiring import Wired

# The end of a log is what tells why something stopped.
_LOG_BYTES_MAX: Final = MIB
_METRICS_SECONDS: Final = 5.0
_SECRET_VARIABLES: Final = ("SECRET", "PASSWORD", "TOKEN", "INSTALLATION_KEY")

Section = Callable[[], Awaitable[Any]]
"""Finds one file of the bundle out: text, or what becomes JSON."""


@dataclass(frozen=True, slots=True)
class _Asked:
    config: Config
    settings: dict[str, Any]
    log: Path | None
    endpoint: str


def diagnostics(
    *,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="FILE", help="The bundle; named by date unless given."),
    ] = None,
    data_dir: DataDirOption = None,
    config: FileOption = None,
    log: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A log of the server, whose end is put in.")
    ] = None,
    endpoint: Annotated[
        str | None,
        typer.Option(
            envvar="LAKEBED_ENDPOINT",
            help="The running server, whose metrics are put in; as it is configured unless given.",
        ),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Write a bundle for whoever helps you: versions, settings, counts, disk use, metrics. No secrets, no data.

    Run it where the server runs, with the server's configuration; the server
    may serve meanwhile, or be stopped. It changes nothing.
    """
    variables = environment()
    loaded = load_config(flags={"data": data_dir}, environment=variables, file=config)
    settings = describe(variables, data=data_dir, file=config)
    asked = _Asked(loaded, settings, log, endpoint or loaded.endpoint)
    taken_at = datetime.fromtimestamp(SystemClock().now() / SECOND, UTC)
    file = out or Path(f"lakebed-diagnostics-{taken_at:%Y%m%d-%H%M%S}.zip")
    texts = asyncio.run(_collect(asked))
    secrets = _secrets(
        effective(flags={"data": data_dir}, environment=variables, file=config), variables, loaded
    )
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as bundle:
        for name, text in texts.items():
            bundle.writestr(name, scrub(text, secrets))
    if json:
        sys.stdout.write(msgspec.json.encode({"file": str(file), "holds": sorted(texts)}).decode() + "\n")
        return
    console = Console(highlight=False)
    console.print(f"wrote {file} with {', '.join(sorted(texts))}", markup=False, soft_wrap=True)
    console.print("Secrets were left out; names of repositories and branches were not.")


async def _collect(asked: _Asked) -> dict[str, str]:
    texts = {"settings.json": _as_json(asked.settings)}
    async with AsyncExitStack() as stack:
        wired, trouble = await _opened(asked.config, stack)
        sections: dict[str, Section] = {
            "about.json": _about,
            "disk.json": lambda: _disk(asked.config),
            "metrics.txt": lambda: _metrics(asked.endpoint),
        }
        if asked.log is not None:
            log = asked.log
            sections["log.txt"] = lambda: _log_end(log)
        if wired is not None:
            kv, repositories = wired.engine.parts.kv, wired.engine.repositories
            sections["repositories.json"] = lambda: count_repositories(kv, repositories)
            sections["database.json"] = lambda: count_database(kv)
        else:
            texts["database.error.txt"] = trouble
        for name, find in sections.items():
            try:
                found = await find()
            except (LakebedError, OSError, httpx.HTTPError) as error:
                texts[f"{name.partition('.')[0]}.error.txt"] = f"{type(error).__name__}: {error}\n"
                continue
            texts[name] = found if isinstance(found, str) else _as_json(found)
    return texts


async def _opened(config: Config, stack: AsyncExitStack) -> tuple[Wired | None, str]:
    try:
        wired, _ = await stack.enter_async_context(look_at(config))
    except (LakebedError, OSError) as error:
        return None, f"{type(error).__name__}: {error}\n"
    return wired, ""


async def _about() -> dict[str, Any]:
    return {
        "lakebed": version("lakebed"),
        "python": sys.version,
        "platform": platform.platform(),
        "machine": platform.machine(),
        "cpus": os.cpu_count(),
        "packages": dict(sorted((each.name, each.version) for each in distributions())),
    }


async def _disk(config: Config) -> dict[str, Any]:
    """Return how full the disk is, and how much each part of the data folder takes."""
    path = config.data.absolute()
    found: dict[str, Any] = {"data_folder": str(path), "is_data_folder": is_data_folder(path)}
    if path.exists():
        usage, layout = shutil.disk_usage(path), Layout(path)
        found |= {"disk_bytes": usage.total, "free_bytes": usage.free}
        for part in (layout.kv, layout.objects, layout.cache, layout.tmp):
            files, size = _folder_size(part)
            found[part.name] = {"files": files, "bytes": size}
    return found


def _folder_size(folder: Path) -> tuple[int, int]:
    files = size = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            try:
                # What it takes on the disk: LMDB's file and a decoded range may be mostly holes.
                size += os.lstat(os.path.join(parent, name)).st_blocks * 512  # noqa: PTH118  many files
            except FileNotFoundError:
                continue  # Deleted since its name was read.
            files += 1
    return files, size


async def _metrics(endpoint: str) -> str:
    async with httpx.AsyncClient(timeout=_METRICS_SECONDS) as client:
        answer = await client.get(f"{endpoint.rstrip('/')}/metrics")
    return answer.raise_for_status().text


async def _log_end(path: Path) -> str:
    with path.open("rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - _LOG_BYTES_MAX))
        return file.read().decode(errors="replace")


def _secrets(given: Effective, variables: Mapping[str, str], config: Config) -> list[str]:
    """Return every secret that this process can know of."""
    found = [str(given[name]) for name, setting in SETTINGS.items() if setting.secret and given[name]]
    found += [value for name, value in variables.items() if any(each in name for each in _SECRET_VARIABLES)]
    # What this user cannot read is in none of the files either.
    with suppress(OSError):
        found.append(Layout(config.data.absolute()).key.read_text(errors="replace"))
    return found


def _as_json(value: Any) -> str:
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode() + "\n"
