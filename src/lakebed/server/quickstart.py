"""The quickstart: a server that opens to a key pair which every tutorial knows."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import Final

from rich.console import Console

from lakebed.errors import ErrorKind, InvalidInputError
from lakebed.model.auth import KeyPair
from lakebed.server.config import Config
from lakebed.server.sample import REPO

# The pair that every tutorial of the peer's quickstart shows. It is published, so it opens loopback only.
QUICKSTART_PAIR: Final = KeyPair(
    access_key_id="AKIAIOSFOLQUICKSTART",
    secret_access_key="wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",  # noqa: S106  documented, not secret
)

_LOOPBACK: Final = frozenset({"127.0.0.1", "localhost", "::1"})


def with_loopback_only(config: Config) -> Config:
    """Return the configuration of a server that takes requests of this machine only, under its own names.

    Raises:
        InvalidInputError: `INVALID_CONFIG`: others could come in.
    """
    if config.host not in _LOOPBACK:
        raise InvalidInputError(
            ErrorKind.INVALID_CONFIG, "--quickstart uses a published key: it listens on loopback only"
        )
    return replace(config, loopback_hosts_only=True)


def say_what_next(out: Console, config: Config, data: Path, *, sample: bool) -> None:
    """Print where the server is, and what to type first."""
    out.print(
        f"Lakebed starts on [bold]{config.endpoint}[/]; its data is in {data}. Stop it with Ctrl-C.\n",
        soft_wrap=True,
    )
    out.print("In another terminal, in this folder:\n")
    lines = [
        f'export PATH="{Path(sys.executable).parent}:$PATH"',
        f"export LAKEBED_ENDPOINT={config.endpoint}",
        f"export LAKEBED_ACCESS_KEY_ID={QUICKSTART_PAIR.access_key_id}",
        f"export LAKEBED_SECRET_ACCESS_KEY={QUICKSTART_PAIR.secret_access_key}",
    ]
    if sample:
        lines += [
            f"lakebed log {REPO}/main",
            f"lakebed fs ls {REPO}/main/sales/",
            f"lakebed branch create {REPO}/first --source main",
            f"lakebed fs upload README.md {REPO}/first/notes.md",
            f"lakebed diff {REPO}/first",
            f'lakebed commit {REPO}/first -m "Add notes"',
            f"lakebed merge {REPO}/first {REPO}/main",
        ]
    for line in lines:
        out.print(f"  {line}", markup=False, soft_wrap=True)
    out.print()
