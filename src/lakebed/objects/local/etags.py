"""ETags of files: modification time and size. The time is set by us, so it names the version.

Every write stamps its file with the clock's microseconds and three digits of a
counter, and never with the stamp of the file it replaces. A restored backup and
a replayed journal keep the stamps, hence the ETags.
"""

import os
from itertools import count

from lakebed.env.clock import Clock, Instant
from lakebed.objects.local.files import Found
from lakebed.objects.port import ETag


class Stamps:
    """Gives out modification times in nanoseconds."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._numbers = count()

    def next_after(self, replaced: Found | None) -> int:
        """Return a stamp that differs from that of the file to be replaced."""
        stamp = self._clock.now() * 1000 + next(self._numbers) % 1000
        return stamp + 1000 if replaced is not None and replaced.stat.st_mtime_ns == stamp else stamp


def etag_of(stamp_ns: int, size_bytes: int) -> ETag:
    """Return the ETag of a file with this stamp and size."""
    return ETag(f"{stamp_ns:x}-{size_bytes:x}")


def etag_of_file(found: os.stat_result) -> ETag:
    """Return the ETag of a file on disk."""
    return etag_of(found.st_mtime_ns, found.st_size)


def mtime_of_file(found: os.stat_result) -> Instant:
    """Return when the file was written."""
    return Instant(found.st_mtime_ns // 1000)
