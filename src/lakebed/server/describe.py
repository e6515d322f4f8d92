"""What `lakebed config` shows of a server, as plain values: the command itself knows no engine."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lakebed.server.effective import effective
from lakebed.server.settings import SETTINGS, unknown_variables


def describe(environment: Mapping[str, str], *, data: str | None, file: Path | None) -> dict[str, Any]:
    """Return every setting with its value, without secrets, and where that comes from.

    Beside them, the variables that look like settings and are none, each with what may
    have been meant.

    Raises:
        InvalidInputError: `INVALID_CONFIG`: a value means nothing, a name is unknown, the file cannot be read.
    """
    found = effective(flags={"data": data}, environment=environment, file=file)
    return {
        "settings": [
            {
                "name": name,
                "value": setting.shown(found[name]),
                "source": found.given[name].source,
                "variable": setting.variable,
            }
            for name, setting in SETTINGS.items()
        ],
        "ignored_variables": list(found.ignored),
        "unknown_variables": unknown_variables(list(environment)),
    }
