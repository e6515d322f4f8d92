"""Dates as HTTP headers write them."""

from email.utils import formatdate
from functools import lru_cache

from lakebed.env.clock import SECOND, Instant


def http_date(instant: Instant) -> bytes:
    """Return an instant as `Sun, 06 Nov 1994 08:49:37 GMT`."""
    return _second(instant // SECOND)


# Objects that are read together were mostly written together.
@lru_cache(maxsize=1024)
def _second(seconds: int) -> bytes:
    return formatdate(seconds, usegmt=True).encode()
