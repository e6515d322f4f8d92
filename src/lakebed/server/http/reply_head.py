"""The lines of a reply before its body. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass
from email.utils import formatdate
from http import HTTPStatus
from typing import Final

from lakebed.env.clock import SECOND, Instant

Headers = Iterable[tuple[bytes, bytes]]

_LINES: Final = {each.value: f"HTTP/1.1 {each.value} {each.phrase}\r\n".encode() for each in HTTPStatus}
_FRAMING: Final = frozenset({b"content-length", b"connection"})
# What would end a line, or a client's string, early.
_ENDS: Final = bytes.maketrans(b"\r\n\0", b"   ")


@dataclass(slots=True)
class Fields:
    """The headers of a reply as lines, and what two of them say."""

    lines: bytes
    length: int | None
    close: bool


def status_line(status: int) -> bytes:
    """Return the first line."""
    return _LINES.get(status) or b"HTTP/1.1 %d \r\n" % status


def date_line(now: Instant) -> bytes:
    """Return the line that says when a reply was made."""
    return f"date: {formatdate(now / SECOND, usegmt=True)}\r\n".encode()


def fields(headers: Headers) -> Fields:
    """Return the headers that an application gave; names are in lower case.

    Values come from users (the type of an object, its metadata), so none may end a line.
    """
    parts: list[bytes] = []
    length: int | None = None
    close = False
    for name, value in headers:
        parts += (name, b": ", value, b"\r\n")
        if name in _FRAMING:
            if name == b"connection":
                close = value == b"close"
            else:
                length = int(value)
    lines = b"".join(parts)
    count = len(parts) // 4
    if lines.count(b"\n") != count or lines.count(b"\r") != count or b"\0" in lines:
        return fields([(name.translate(_ENDS), value.translate(_ENDS)) for name, value in headers])
    return Fields(lines, length, close)
