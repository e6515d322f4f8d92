"""Dates as headers and documents of S3 write them."""

from datetime import UTC
from email.utils import parsedate_to_datetime

import numpy as np

from lakebed.env.clock import Instant


def iso_date(instant: Instant) -> str:
    """Return an instant as `1994-11-06T08:49:37.000Z`."""
    return f"{np.datetime64(instant // 1000, 'ms')}Z"


def iso_dates(instants: "np.ndarray[tuple[int], np.dtype[np.int64]]") -> list[str]:
    """Return microseconds as `iso_date` does, all at once and without the Z."""
    texts: list[str] = np.datetime_as_string((instants // 1000).astype("datetime64[ms]")).tolist()
    return texts


def parse_http_date(text: str) -> int | None:
    """Return a header's date in seconds since the epoch; None if it is no date, which is then ignored."""
    try:
        parsed = parsedate_to_datetime(text)
    except ValueError:
        return None
    return int((parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)).timestamp())
