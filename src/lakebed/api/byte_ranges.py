"""The `Range` header of a download."""

import re
from typing import Final

from lakebed.api.errors import error_reply
from lakebed.errors import ErrorKind, InvalidInputError
from lakebed.http.reply import Headers, Reply
from lakebed.objects.port import ByteRange

_RANGE: Final = re.compile(r"bytes=(\d{0,19})-(\d{0,19})", re.ASCII)


def parse_range(header: str, size_bytes: int) -> ByteRange:
    """Return the bytes that a header asks for, of an object of `size_bytes`.

    Raises:
        InvalidInputError: `RANGE_NOT_SATISFIABLE`: not one range of bytes, or one past the end of the object.
    """
    found = _RANGE.fullmatch(header.strip())
    if found is None or (not found.group(1) and not found.group(2)):
        raise InvalidInputError(
            ErrorKind.RANGE_NOT_SATISFIABLE, f"range {header!r} is not one range of bytes"
        )
    first, last = found.groups()
    if first:
        start, end = int(first), min(int(last) + 1, size_bytes) if last else size_bytes
    else:
        start, end = max(size_bytes - int(last), 0), size_bytes
    if start >= end:
        raise InvalidInputError(
            ErrorKind.RANGE_NOT_SATISFIABLE, f"range {header!r} lies past the end of {size_bytes} bytes"
        )
    return ByteRange(start, end)


def range_error(header: str, size_bytes: int, error: InvalidInputError) -> Reply:
    """Return why a range cannot be served; with the object's size, if the header was a range at all."""
    told: Headers = ()
    if _RANGE.fullmatch(header.strip()) is not None:
        told = ((b"content-range", b"bytes */%d" % size_bytes),)
    return error_reply(error, headers=told)
