"""Comparing entries of equal keys, many at a time.

Two questions that must not be mixed up: whether two entries are *alike*, so that a user sees no difference, and
whether anything differs at all (address and time too). Alike are:

    two objects in the namespace   if size, checksum, content type and user metadata are equal (`identity`)
    if one lies outside of it      if the addresses are equal, too: an import from another place must take effect
    without a checksum             if nothing differs: their content is not known

`format.identity.alike` answers the first question for two entries.
"""

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakebed.format.columns import Ints, Mask, column, mask, take_values
from lakebed.model.entries import EXTERNAL_MARK

_EMPTY: Final = pa.scalar("", pa.string())


def identities_differ(left: pa.Table, left_rows: Ints, right: pa.Table, right_rows: Ints) -> Mask:
    """Return for each pair of rows whether a user would see a difference, by the rules above."""
    differ = _differ("identity", left, left_rows, right, right_rows)
    elsewhere = _differ("address", left, left_rows, right, right_rows)
    # Mostly rows differ in their identity, or in nothing, and few are left to look at.
    doubtful = np.flatnonzero(~differ & (elsewhere | _differ("mtime", left, left_rows, right, right_rows)))
    if len(doubtful):
        unknown = mask(pc.equal(take_values(column(left, "checksum"), left_rows[doubtful]), _EMPTY))
        outside = _is_outside(left, left_rows[doubtful]) | _is_outside(right, right_rows[doubtful])
        differ[doubtful] = unknown | (outside & elsewhere[doubtful])
    return differ


def rows_differ(left: pa.Table, left_rows: Ints, right: pa.Table, right_rows: Ints) -> Mask:
    """Return for each pair of rows whether anything differs, address and time included."""
    # The identity stands for size, checksum, content type and metadata.
    return (
        _differ("identity", left, left_rows, right, right_rows)
        | _differ("mtime", left, left_rows, right, right_rows)
        | _differ("address", left, left_rows, right, right_rows)
    )


def _is_outside(block: pa.Table, rows: Ints) -> Mask:
    return mask(pc.match_substring(take_values(column(block, "address"), rows), EXTERNAL_MARK))


def _differ(name: str, left: pa.Table, left_rows: Ints, right: pa.Table, right_rows: Ints) -> Mask:
    ours = take_values(column(left, name), left_rows)
    theirs = take_values(column(right, name), right_rows)
    return mask(pc.not_equal(ours, theirs))
