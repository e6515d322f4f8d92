"""Where things lie in a namespace, for those who read it without the engine: the garbage collection job. Pure.

    data/<slice>/<object>              users' objects
    _lakebed/ranges/<id>.parquet       ranges; `format.tree_names` has the ids
    _lakebed/metaranges/<id>.parquet   metaranges

A slice is named by reversed time, so that a later one sorts before an earlier one.
"""

from typing import Final

from lakebed.env.clock import Instant
from lakebed.env.ids import encode_base32

DATA_FOLDER: Final = "data/"
OWN_FOLDER: Final = "_lakebed/"
RANGES_FOLDER: Final = f"{OWN_FOLDER}ranges/"
METARANGES_FOLDER: Final = f"{OWN_FOLDER}metaranges/"
TREE_FILE_ENDING: Final = ".parquet"

SLICE_TIME_WIDTH: Final = 12
SLICE_NAME_WIDTH: Final = 20
_END_OF_TIME: Final = 32**SLICE_TIME_WIDTH - 1


def slice_name(now: Instant, token: str) -> str:
    """Return the name of a slice opened at `now`; a later one sorts before an earlier one."""
    return slice_time(now) + token[: SLICE_NAME_WIDTH - SLICE_TIME_WIDTH]


def slice_time(now: Instant) -> str:
    """Return how the names of slices opened at `now` begin."""
    return encode_base32(_END_OF_TIME - now, width=SLICE_TIME_WIDTH)


def slice_opened(name: str) -> Instant:
    """Return when the slice called `name` was opened."""
    return Instant(_END_OF_TIME - int(name[:SLICE_TIME_WIDTH], 32))
