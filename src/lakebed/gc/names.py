"""Names of runs, and of the attempts that condemn commits for them.

Both are named like slices: reversed engine time and chance, so the newest sorts first and
none is ever used twice. Everything of a run lies below `_lakebed/gc/<run>/`.
"""

from lakebed.env.clock import Instant
from lakebed.objects.slices import slice_name, slice_opened


def run_name(now: Instant, token: str) -> str:
    """Return the name of a run, or of an attempt, that begins at `now`."""
    return slice_name(now, token)


def begun_at(name: str) -> Instant:
    """Return when a run or an attempt began; for what is no such name, the beginning of time."""
    try:
        return slice_opened(name)
    except ValueError:
        return Instant(0)
