"""The `Content-Disposition` of a download that a browser saves as a file. Pure."""

import re
from typing import Final
from urllib.parse import quote

_TOKEN: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")


def attachment(name: str) -> str:
    """Return the header's value for a file of this name (RFC 6266).

    >>> attachment("part 1.csv")
    'attachment; filename="part 1.csv"'
    """
    if not name:
        return "attachment"
    if _TOKEN.fullmatch(name):
        return f"attachment; filename={name}"
    if name.isascii() and name.isprintable():
        quoted = name.replace("\\", r"\\").replace('"', r"\"")
        return f'attachment; filename="{quoted}"'
    return f"attachment; filename*=utf-8''{quote(name, safe='', errors='replace')}"
