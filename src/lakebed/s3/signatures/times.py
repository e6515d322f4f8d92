"""Times as signatures carry them. Pure, and strict: what is not a time gives None."""

from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import lru_cache

from lakebed.env.clock import SECOND, Instant


# Requests that were signed in the same second come together.
@lru_cache(maxsize=1024)
def parse_stamp(text: str) -> Instant | None:
    """Return the time that `20150830T123600Z` stands for.

    >>> parse_stamp("19700101T000001Z")
    1000000
    """
    digits = text[:8] + text[9:15]
    if len(text) != 16 or text[8] != "T" or text[15] != "Z" or not (digits.isascii() and digits.isdigit()):
        return None
    try:
        moment = datetime(
            int(text[:4]),
            int(text[4:6]),
            int(text[6:8]),
            int(text[9:11]),
            int(text[11:13]),
            int(text[13:15]),
            tzinfo=UTC,
        )
    except ValueError:
        return None
    return Instant(int(moment.timestamp()) * SECOND)


def parse_http_date(text: str) -> Instant | None:
    """Return the time that `Sun, 30 Aug 2015 12:36:00 GMT` stands for."""
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


def stamp(instant: Instant) -> str:
    """Return a time as it is signed: `20150830T123600Z`."""
    return _moment(instant).strftime("%Y%m%dT%H%M%SZ")


def show(instant: Instant) -> str:
    """Return a time as it stands in Amazon's errors: `2015-08-30T12:36:00Z`."""
    return _moment(instant).strftime("%Y-%m-%dT%H:%M:%SZ")


def _moment(instant: Instant) -> datetime:
    return datetime.fromtimestamp(instant // SECOND, UTC)
