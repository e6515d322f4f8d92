"""Dates as HTTP headers write them."""

from datetime import UTC
from email.utils import formatdate, parsedate_to_datetime
from functools import lru_cache

from lakebed.env.clock import SECOND, Instant


def http_date(instant: Instant) -> bytes:
    """Return an instant as `Sun, 06 Nov 1994 08:49:37 GMT`."""
    return _second(instant // SECOND)


def parse_http_date(text: str) -> Instant | None:
    """Return the time that such a text stands for; None if it is no date."""
    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    # "-0000" means: in UTC, and no word about the sender's zone.
    moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    try:
        return Instant(int(moment.timestamp()) * SECOND)
    except OverflowError:
        return None


# Objects that are read together were mostly written together.
@lru_cache(maxsize=1024)
def _second(seconds: int) -> bytes:
    return formatdate(seconds, usegmt=True).encode()
