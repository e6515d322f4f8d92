"""Flags that the commands of the server share, made from the table of settings."""

import os
from pathlib import Path
from typing import Annotated

import typer

from lakebed.server.settings import CONFIG_FILE_VARIABLE, SETTINGS

FileOption = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar="FILE",
        envvar=CONFIG_FILE_VARIABLE,
        help="A TOML file with settings.",
        show_default="lakebed.toml in the data folder",
    ),
]


def environment() -> dict[str, str]:
    """Return the environment of this process."""
    return dict(os.environ)  # noqa: TID251  the configuration of a process


def _option(name: str, metavar: str) -> typer.models.OptionInfo:
    setting = SETTINGS[name]
    found: typer.models.OptionInfo = typer.Option(
        setting.flag,
        metavar=metavar,
        help=setting.meaning.replace("`", ""),
        show_default=setting.shown(setting.default),
    )
    return found


DataOption = Annotated[str | None, _option("data", "DIR")]
ListenOption = Annotated[str | None, _option("listen", "HOST:PORT")]
WorkersOption = Annotated[str | None, _option("workers", "N")]
TlsCertOption = Annotated[str | None, _option("tls.cert", "FILE")]
TlsKeyOption = Annotated[str | None, _option("tls.key", "FILE")]
