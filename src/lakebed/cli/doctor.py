"""`lakebed doctor`: what a person would check, in the order in which they would.

Each check needs the ones before it, so the first that fails ends the examination and
says what to do.
"""

from collections.abc import Callable, Iterator

import typer
from rich.text import Text

from lakebed.cli.output import JsonOption, console, print_json
from lakebed.client.client import Client
from lakebed.client.config import load_config
from lakebed.client.transport import Transport
from lakebed.errors import DeniedError, ErrorKind, LakebedError, UnavailableError

Check = tuple[str, Callable[[], str]]


def doctor(*, json: JsonOption = False) -> None:
    """Check the configuration, the server and the access key, and say what to do."""
    results, is_well = [], True
    for name, check in _checks():
        try:
            found = check()
        except LakebedError as error:
            found, is_well = str(error), False
        results.append({"check": name, "ok": is_well, "found": found})
        if not json:
            mark = ("✓", "green") if is_well else ("✗", "bold red")
            console().print(Text.assemble(mark, f" {name:<14} ", found), soft_wrap=True)
        if not is_well:
            break
    if json:
        print_json(results)
    if not is_well:
        raise typer.Exit(1)


def _checks() -> Iterator[Check]:
    yield "configuration", lambda: f"server from {load_config().endpoint_source}"
    # A doctor does not wait for a patient to come round: one try.
    with Client(transport=Transport(load_config(), attempts_max=1)) as client:
        yield "server", lambda: _alive(client)
        yield "access key", lambda: _known(client)
        yield "version", lambda: _version(client)
        yield "repositories", lambda: _repositories(client)


def _alive(client: Client) -> str:
    if not client.is_alive():
        config = client.config
        raise UnavailableError(
            ErrorKind.STORE_UNAVAILABLE,
            f"nothing answers at {config.endpoint} (from {config.endpoint_source}): "
            "start one with `lakebed run --quickstart`, or correct the endpoint",
        )
    return f"answers at {client.config.endpoint}"


def _known(client: Client) -> str:
    try:
        return f"accepted as {client.auth.whoami().id}"
    except LakebedError as error:
        if error.kind is not ErrorKind.UNAUTHENTICATED:
            raise
        config = client.config
        raise DeniedError(
            ErrorKind.UNAUTHENTICATED,
            f"the server refuses {config.access_key_id} (from {config.credentials_source}): correct the key and its "
            "secret, or ask an administrator for a new pair (`lakebed auth key create`)",
        ) from error


def _repositories(client: Client) -> str:
    found = [repo.id for repo in client.repositories(limit=3)]
    return f"{', '.join(found)}" if found else "none yet: create one with `lakebed repo create`"


def _version(client: Client) -> str:
    told = client.server().version_config
    return f"{told.lakebed_version} (API of lakeFS {told.version})" if told.lakebed_version else told.version
