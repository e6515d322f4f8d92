"""The `Range` header of a download."""

from lakebed.api.errors import error_reply
from lakebed.errors import ErrorKind, InvalidInputError
from lakebed.http.ranges import requested_range
from lakebed.http.reply import Headers, Reply
from lakebed.objects.port import ByteRange


def parse_range(header: str, size_bytes: int) -> ByteRange:
    """Return the bytes that a header asks for, of an object of `size_bytes`.

    Raises:
        InvalidInputError: `RANGE_NOT_SATISFIABLE`: not one range of bytes, or one past the end of the object.
    """
    asked = requested_range(header)
    if asked is None:
        raise InvalidInputError(
            ErrorKind.RANGE_NOT_SATISFIABLE, f"range {header!r} is not one range of bytes"
        )
    start, end = asked.within(size_bytes)
    if start >= end:
        raise InvalidInputError(
            ErrorKind.RANGE_NOT_SATISFIABLE, f"range {header!r} lies past the end of {size_bytes} bytes"
        )
    return ByteRange(start, end)


def range_error(header: str, size_bytes: int, error: InvalidInputError) -> Reply:
    """Return why a range cannot be served; with the object's size, if the header was a range at all."""
    told: Headers = ()
    if requested_range(header) is not None:
        told = ((b"content-range", b"bytes */%d" % size_bytes),)
    return error_reply(error, headers=told)
