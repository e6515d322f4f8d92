"""`lakebed kv`: the database of an installation as a whole, while nothing uses it."""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Annotated, Final
from urllib.parse import unquote, urlsplit

import msgspec
import typer
from rich.console import Console

from lakebed.env.clock import SystemClock
from lakebed.env.ids import SystemIds
from lakebed.errors import ErrorKind, InvalidInputError
from lakebed.kv.copying import CopyableKV, Progress, copy_store, copyable, release
from lakebed.kv.open import open_kv
from lakebed.kv.port import KVStore
from lakebed.model.repository import Repository
from lakebed.objects.port import ObjectStore
from lakebed.refs.agreement import Agreement
from lakebed.refs.repositories import Repositories
from lakebed.server.config import Config, load_config
from lakebed.server.data_folder import DataFolder, is_data_folder
from lakebed.server.options import DataOption, FileOption, environment
from lakebed.server.settings import hide_password

app = typer.Typer(
    help="Copy an installation's database, and see what its servers share.", no_args_is_help=True
)
out: Final = Console(highlight=False)
errors: Final = Console(stderr=True, highlight=False)

_SECONDS_BETWEEN_LINES: Final = 1.0

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def _store(metavar: str) -> typer.models.ArgumentInfo:
    found: typer.models.ArgumentInfo = typer.Argument(
        metavar=metavar,
        help="A data folder, or a URL: lmdb:///FOLDER, postgresql://…",
        show_default=False,
    )
    return found


@app.command()
def copy(
    source: Annotated[str, _store("FROM")],
    target: Annotated[str, _store("TO")],
    *,
    json: JsonOption = False,
) -> None:
    """Copy everything from one database to another, which must be empty.

    Stop all servers and compactors first. If the command is cut off, run it again: it goes on where it was. At the end every
    record is compared, and servers refuse to start on the old database. Objects stay where they are.

    Example: lakebed kv copy lakebed-data postgresql://user@host/lakebed
    """
    asyncio.run(_copy(_existing(source), _url(target), json=json))


@app.command("release")
def release_store(store: Annotated[str, _store("DATABASE")], *, json: JsonOption = False) -> None:
    """Let servers use a database that was copied, because the copy is gone.

    Never while the copy is in use: two installations over one storage delete each other's objects.
    """
    asyncio.run(_release(_existing(store), json=json))


@app.command()
def settings(
    *,
    data: DataOption = None,
    config: FileOption = None,
    replace: Annotated[
        bool,
        typer.Option(
            "--replace", help="Replace them by those of this configuration. Nothing may be running."
        ),
    ] = False,
    json: JsonOption = False,
) -> None:
    """Show the settings that all processes of an installation share, as its database has them."""
    loaded = load_config(flags={"data": data}, environment=environment(), file=config)
    asyncio.run(_settings(loaded, replace=replace, json=json))


async def _copy(source_url: str, target_url: str, *, json: bool) -> None:
    if source_url == target_url:
        raise InvalidInputError(ErrorKind.INVALID_ARGUMENT, "source and target are the same database")
    async with _held(source_url) as source, _held(target_url) as target:
        if await _is_empty(source):
            raise InvalidInputError(
                ErrorKind.INVALID_ARGUMENT,
                f"{hide_password(source_url)} is empty: name the database of an installation as FROM",
            )
        done = await copy_store(
            source, target, copy=SystemIds().token(), to=hide_password(target_url), tell=_Telling()
        )
        local = await _local_namespaces(target)
    if json:
        found = {
            "records": done.rows,
            "bytes": done.size,
            "database": hide_password(target_url),
            "local": local,
        }
        _print_json(found)
        return
    out.print(f"copied and compared {done.rows:,} records, {_mib(done.size)}", soft_wrap=True)
    out.print(f"Set database = {hide_password(target_url)!r}, and start the servers.", soft_wrap=True)
    out.print(
        "Secrets are encrypted with the installation's key: installation.key goes with the database.",
        soft_wrap=True,
    )
    if local:
        out.print(
            f"Objects of {', '.join(local[:5])}{' and others' if len(local) > 5 else ''} stay in their folder: servers on other "
            "machines do not reach them.",
            soft_wrap=True,
        )


async def _release(url: str, *, json: bool) -> None:
    async with _held(url) as store:
        had = await release(store)
    if json:
        _print_json({"released": had})
        return
    out.print("servers may use it again" if had else "it was not copied: nothing to release")


async def _settings(config: Config, *, replace: bool, json: bool) -> None:
    async with AsyncExitStack() as stack:
        url = config.kv_url or f"lmdb://{config.data.absolute() / 'kv'}"
        kv: KVStore
        if replace:
            kv = await stack.enter_async_context(_held(url))
        else:
            _require_there(url)
            kv = await open_kv(url)
            stack.push_async_callback(kv.close)
        agreement = Agreement(kv, config.shared, clock=SystemClock(), ids=SystemIds())
        if replace:
            await agreement.replace()
        agreed = await agreement.values()
    if json:
        _print_json({"database": dict(agreed) if agreed else None, "configuration": dict(config.shared)})
        return
    for name, value in (agreed or config.shared).items():
        here = config.shared.get(name, value)
        differs = f"   (this configuration: {here:g})" if here != value else ""
        out.print(f"{name} = {value:g}{differs}", soft_wrap=True)
    if not agreed:
        out.print("The database has none yet: the first server writes its own.")


class _Telling:
    """Says how far a copy is, once a second."""

    def __init__(self) -> None:
        self._clock = SystemClock()
        self._said = self._clock.monotonic()

    def __call__(self, progress: Progress) -> None:
        now = self._clock.monotonic()
        if now - self._said >= _SECONDS_BETWEEN_LINES:
            self._said = now
            errors.print(f"{progress.doing} {progress.rows:,} records, {_mib(progress.size)}", soft_wrap=True)


@asynccontextmanager
async def _held(url: str) -> AsyncIterator[CopyableKV]:
    """Yield a store that no server of its data folder uses, if it lies in one."""
    async with AsyncExitStack() as stack:
        folder = _folder_of(url)
        if folder is not None and is_data_folder(folder):
            stack.callback(DataFolder.open(folder).close)
        kv = await open_kv(url)
        stack.push_async_callback(kv.close)
        yield copyable(kv)


async def _is_empty(kv: CopyableKV) -> bool:
    async for records in kv.records():
        if records:
            return False
    return True


async def _local_namespaces(kv: KVStore) -> list[str]:
    async def no_store(namespace: str) -> ObjectStore:
        raise AssertionError(namespace)

    repositories = Repositories(kv, open_store=no_store, clock=SystemClock(), ids=SystemIds())
    found = [each.value async for each in repositories.scan()]
    return [
        each.namespace
        for each in found
        if isinstance(each, Repository) and each.namespace.startswith("local:")
    ]


def _url(store: str) -> str:
    """Return the URL of a store; a data folder means the embedded one in it."""
    if "://" in store:
        return store
    folder = Path(store).absolute()
    if folder.exists() and any(folder.iterdir()) and not is_data_folder(folder):
        raise InvalidInputError(
            ErrorKind.INVALID_ARGUMENT, f"{folder} is no data folder, and it is not empty"
        )
    if not folder.exists():
        DataFolder.open(folder).close()
    return f"lmdb://{folder / 'kv'}"


def _existing(store: str) -> str:
    """Return the URL of a store that must be there: opening an embedded one would create it."""
    url = store if "://" in store else f"lmdb://{Path(store).absolute() / 'kv'}"
    parts = urlsplit(url)
    folder = Path(unquote(parts.path))
    if parts.scheme == "lmdb" and not (folder / "data.mdb").is_file():
        raise InvalidInputError(
            ErrorKind.INVALID_ARGUMENT,
            f"there is no database in {folder}: name the folder that `lakebed run --data` uses",
        )
    return url


def _require_there(url: str) -> None:
    folder = _folder_of(url)
    if folder is not None and not is_data_folder(folder):
        raise InvalidInputError(
            ErrorKind.INVALID_CONFIG, f"{folder} is no data folder: name the server's with --data"
        )


def _folder_of(url: str) -> Path | None:
    parts = urlsplit(url)
    return Path(unquote(parts.path)).parent if parts.scheme == "lmdb" else None


def _print_json(found: object) -> None:
    sys.stdout.write(msgspec.json.format(msgspec.json.encode(found), indent=2).decode() + "\n")


def _mib(size: int) -> str:
    return f"{size / 2**20:,.1f} MiB"
