"""Names of runs, and of the attempts that condemn commits for them.

Both are named like slices: reversed engine time and chance, so the newest sorts first and
none is ever used twice. Everything of a run lies below `_lakebed/gc/<run>/`.
"""

from lakebed.env.clock import Instant
from lakebed.objects.slices import slice_name


def run_name(now: Instant, token: str) -> str:
    """Return the name of a run, or of an attempt, that begins at `now`."""
    return slice_name(now, token)
