"""Dates as documents of S3 write them."""

import numpy as np

from lakebed.env.clock import Instant


def iso_date(instant: Instant) -> str:
    """Return an instant as `1994-11-06T08:49:37.000Z`."""
    return f"{np.datetime64(instant // 1000, 'ms')}Z"


def iso_dates(instants: "np.ndarray[tuple[int], np.dtype[np.int64]]") -> list[str]:
    """Return microseconds as `iso_date` does, all at once and without the Z."""
    texts: list[str] = np.datetime_as_string((instants // 1000).astype("datetime64[ms]")).tolist()
    return texts
