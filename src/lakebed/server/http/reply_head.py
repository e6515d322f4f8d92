"""The lines of a reply before its body. Pure."""

from collections.abc import Sequence
from email.utils import formatdate
from http import HTTPStatus
from typing import Final

from lakebed.env.clock import SECOND, Instant

Headers = Sequence[tuple[bytes, bytes]]

_LINES: Final = {each.value: f"HTTP/1.1 {each.value} {each.phrase}\r\n".encode() for each in HTTPStatus}
# What would end a line, or a client's string, early.
_ENDS: Final = bytes.maketrans(b"\r\n\0", b"   ")


def status_line(status: int) -> bytes:
    """Return the first line."""
    return _LINES.get(status) or b"HTTP/1.1 %d \r\n" % status


def date_line(now: Instant) -> bytes:
    """Return the line that says when a reply was made."""
    return f"date: {formatdate(now / SECOND, usegmt=True)}\r\n".encode()


def add_fields(parts: list[bytes], headers: Headers) -> tuple[int | None, bool]:
    """Add the headers that an application gave; return the length they announce, and whether they end the connection.

    Names are in lower case. Values come from users (the type of an object, its metadata), so
    none may end a line.
    """
    length: int | None = None
    close = False
    lines: list[bytes] = []
    for name, value in headers:
        lines += (name, b": ", value, b"\r\n")
        if name == b"content-length":
            length = int(value)
        elif name == b"connection":
            close = value == b"close"
    block = b"".join(lines)
    if block.count(b"\n") + block.count(b"\r") + block.count(b"\0") != len(lines) // 2:
        block = b"".join([b"%b: %b\r\n" % (name, value.translate(_ENDS)) for name, value in headers])
    parts.append(block)
    return length, close
