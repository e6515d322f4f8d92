"""Comparing entries of equal keys, many at a time.

Two questions that must not be mixed up: whether a user would see a difference
(identity), and whether anything differs at all (address and time too).
"""

import pyarrow as pa
import pyarrow.compute as pc

from lakebed.format.columns import Ints, Mask, column, mask, take_values


def identities_differ(left: pa.Table, left_rows: Ints, right: pa.Table, right_rows: Ints) -> Mask:
    """Return for each pair of rows whether a user would see a difference."""
    return _differ("identity", left, left_rows, right, right_rows)


def rows_differ(left: pa.Table, left_rows: Ints, right: pa.Table, right_rows: Ints) -> Mask:
    """Return for each pair of rows whether anything differs, address and time included."""
    # The identity stands for size, checksum, content type and metadata.
    return (
        _differ("identity", left, left_rows, right, right_rows)
        | _differ("mtime", left, left_rows, right, right_rows)
        | _differ("address", left, left_rows, right, right_rows)
    )


def _differ(name: str, left: pa.Table, left_rows: Ints, right: pa.Table, right_rows: Ints) -> Mask:
    ours = take_values(column(left, name), left_rows)
    theirs = take_values(column(right, name), right_rows)
    return mask(pc.not_equal(ours, theirs))
