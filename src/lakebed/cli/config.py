"""`lakebed config`: every setting, its value, and where that was said.

The settings of the server come through the entry-point group `lakebed.settings`, as
plain values: the command line imports no engine.
"""

import os
from collections.abc import Mapping
from importlib.metadata import entry_points
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from lakebed.cli.output import JsonOption, print_fields, print_json, print_table, say
from lakebed.client.config import load_config
from lakebed.errors import LakebedError

_GROUP: Final = "lakebed.settings"

FileOption = Annotated[
    Path | None, typer.Option("--config", metavar="FILE", help="The server's TOML file.", show_default=False)
]
DataOption = Annotated[
    str | None, typer.Option("--data", metavar="DIR", help="The server's data folder.", show_default=False)
]


def config(*, data: DataOption = None, file: FileOption = None, json: JsonOption = False) -> None:
    """Show the settings of the client and of a server started here, and where each was found."""
    environment = dict(os.environ)  # noqa: TID251  the configuration of a process
    client = _client(environment)
    parts = {each.name: each.load()(environment, data=data, file=file) for each in entry_points(group=_GROUP)}
    if json:
        print_json({"client": client, **parts})
        return
    say("Client")
    print_fields([(f"  {name.replace('_', ' ')}", value) for name, value in client.items()])
    for name, part in parts.items():
        say(f"\n{name.capitalize()}")
        _print_part(part)


def _client(environment: Mapping[str, str]) -> dict[str, str]:
    try:
        found = load_config(environment=environment)
    except LakebedError as error:
        # Whoever only runs a server needs none of it.
        return {"not_configured": str(error)}
    return {
        "endpoint": found.endpoint,
        "endpoint_source": found.endpoint_source,
        "access_key_id": found.access_key_id,
        "credentials_source": found.credentials_source,
    }


def _print_part(part: Mapping[str, Any]) -> None:
    rows = [[f"  {each['name']}", each["value"], each["source"]] for each in part["settings"]]
    print_table(["  setting", "value", "from"], rows, empty="no settings")
    for name in part["ignored_variables"]:
        say("{} is ignored: the endpoint is this server's own address", name)
    for name, meant in part["unknown_variables"].items():
        say(
            "{} is set, and there is no such setting" + (": {} may be meant" if meant else ""),
            *filter(None, [name, meant]),
        )
