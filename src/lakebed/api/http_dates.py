"""Dates as HTTP headers write them."""

from email.utils import formatdate

from lakebed.env.clock import SECOND, Instant


def http_date(instant: Instant) -> str:
    """Return an instant as `Sun, 06 Nov 1994 08:49:37 GMT`."""
    return formatdate(instant / SECOND, usegmt=True)
