"""Read files without making the event loop wait for the disk."""

import os
from typing import Final

from lakebed.errors import CorruptError, ErrorKind
from lakebed.limits import INLINE_READ_BYTES_MAX

_NOWAIT: Final = getattr(os, "RWF_NOWAIT", 0)


def read_cached(fd: int, start: int, end: int) -> bytes | None:
    """Return the bytes if there are few of them and they are in memory; None means: read them in a thread."""
    if end - start > INLINE_READ_BYTES_MAX:
        return None
    data = bytearray(end - start)
    try:
        count = os.preadv(fd, [data], start, _NOWAIT)
    except OSError:
        return None  # Not in memory, or a file system that cannot tell.
    return bytes(data) if count == len(data) else None


def read_whole(fd: int, start: int, end: int) -> bytes:
    """Return the bytes from `start` to `end`, all of them."""
    data = bytearray(end - start)
    view = memoryview(data)
    while view:
        count = os.preadv(fd, [view], end - len(view))
        if not count:
            raise CorruptError(ErrorKind.UNREADABLE, "an object's file was cut short while it was read")
        view = view[count:]
    return bytes(data)
