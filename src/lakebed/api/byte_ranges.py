"""The `Range` header of a download."""

from typing import Final

from lakebed.api.errors import error_reply
from lakebed.errors import ErrorKind, InvalidInputError, quoted
from lakebed.http.ranges import requested_range
from lakebed.http.reply import Headers, Reply
from lakebed.objects.port import ByteRange

_OF_RANGES: Final = frozenset("0123456789-, ")
_OF_BODIES: Final = frozenset({b"content-type", b"x-content-type-options"})
"""Headers that the body of an error has of its own."""


def parse_range(header: str, size_bytes: int) -> ByteRange:
    """Return the bytes that a header asks for, of an object of `size_bytes`.

    Raises:
        InvalidInputError: `RANGE_NOT_SATISFIABLE`: several ranges, or one past the end of the object; `INVALID_ARGUMENT`: no
            range of bytes.
    """
    asked = requested_range(header)
    if asked is None:
        are_ranges = header.startswith("bytes=") and "-" in header and set(header[6:]) <= _OF_RANGES
        kind = ErrorKind.RANGE_NOT_SATISFIABLE if are_ranges else ErrorKind.INVALID_ARGUMENT
        raise InvalidInputError(kind, f"range {quoted(header)} is not one range of bytes")
    start, end = asked.within(size_bytes)
    if start >= end:
        raise InvalidInputError(
            ErrorKind.RANGE_NOT_SATISFIABLE, f"range {quoted(header)} lies past the end of {size_bytes} bytes"
        )
    return ByteRange(start, end)


def range_error(header: str, size_bytes: int, error: InvalidInputError, *, about: Headers) -> Reply:
    """Return why a range cannot be served: with what is said `about` the object, if the header was a range at all."""
    if error.kind is not ErrorKind.RANGE_NOT_SATISFIABLE:
        return error_reply(error)
    told: Headers = tuple(each for each in about if each[0] not in _OF_BODIES)
    if requested_range(header) is not None:
        told = (*told, (b"content-range", b"bytes */%d" % size_bytes))
    return error_reply(error, headers=told)
