"""Times as signatures carry them. Pure, and strict: what is not a time gives None."""

from datetime import UTC, datetime

from lakebed.env.clock import SECOND, Instant
from lakebed.format.memo import memo


# Requests that were signed in the same second come together.
@memo
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


def show(instant: Instant) -> str:
    """Return a time as it stands in Amazon's errors: `2015-08-30T12:36:00Z`."""
    return datetime.fromtimestamp(instant // SECOND, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
