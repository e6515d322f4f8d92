"""`Lifetimes`: how long things are kept that processes of one installation rely on each other to keep.

The defaults and their reasons are in `lakebed.limits`. An operator may set them, and all processes of an
installation must have the same ones: a cleaner with a shorter grace than a reader's deletes what that reader holds. So the
installation's record has them (`refs/agreement.py`), and a process with others does not start.

What safety assumes of them:

    grace     longer than a pending entry and a pin may be silent, twice over: both are taken for dead before what they
              protect is freed. Below a quarter of the day between two marks of garbage collection, so that nothing is on
              its way from one place to another for longer.
    link      long enough to send what a presigned URL began; no longer than objects are too young to be garbage.
    slice     the collector adds it to the age of an object; a slice is closed in the era of its segments.

Listing what is uncommitted may take half a grace: the first page must still be true when the last is read.
"""

from dataclasses import dataclass

from lakebed.limits import (
    GC_GRACE_SECONDS,
    GC_MIN_AGE_SECONDS,
    GRACE_SECONDS,
    GRACE_SECONDS_MAX,
    GRACE_SECONDS_MIN,
    LINK_LIFETIME_SECONDS,
    LINK_LIFETIME_SECONDS_MIN,
    PENDING_TIMEOUT_SECONDS,
    PIN_SECONDS,
    PRESIGN_SECONDS,
    SLICE_SECONDS,
)

assert 2 * max(PENDING_TIMEOUT_SECONDS, PIN_SECONDS) <= GRACE_SECONDS_MIN <= GRACE_SECONDS
assert GRACE_SECONDS <= GRACE_SECONDS_MAX <= GC_GRACE_SECONDS / 4
assert PRESIGN_SECONDS <= LINK_LIFETIME_SECONDS_MIN <= LINK_LIFETIME_SECONDS <= GC_MIN_AGE_SECONDS


@dataclass(frozen=True, slots=True, kw_only=True)
class Lifetimes:
    """Times in seconds that all processes of an installation share."""

    grace_seconds: float = GRACE_SECONDS
    """What left a branch, a stash or the list of repositories stays readable for so long."""
    link_seconds: float = LINK_LIFETIME_SECONDS
    """An address that was given out to be written can be linked for so long."""
    slice_seconds: float = SLICE_SECONDS
    """One process puts objects into a slice of `data/` for so long."""

    @property
    def listing_seconds(self) -> float:
        """How long listing what is uncommitted may take."""
        return self.grace_seconds / 2
