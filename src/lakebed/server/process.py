"""What every process of a server does first, and how many object stores it can keep open.

File descriptors are shared out: connections of clients take up to a half (`listening.connections_max`), open object
stores a quarter; the rest is for the database, the cache and requests to S3.
"""

import os
import resource

from lakebed.limits import STORE_DESCRIPTORS_MAX, STORES_OPEN_MAX
from lakebed.telemetry.log import get_logger

log = get_logger(__name__)

# What libraries create is for the server's account alone, like what we create.
_UMASK = 0o077
_STORES_SHARE = 4
# A copy between two repositories uses two stores.
_STORES_MIN = 2


def begin_process() -> None:
    """Raise the soft limit of file descriptors to the hard one, and let no other account read new files."""
    os.umask(_UMASK)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == hard:
        return
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    except (OSError, ValueError) as error:
        log.warning("descriptor_limit_not_raised", soft=soft, hard=hard, error=str(error))


def stores_open_max() -> int:
    """Return how many object stores this process can keep open."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return STORES_OPEN_MAX
    return max(_STORES_MIN, min(STORES_OPEN_MAX, soft // _STORES_SHARE // STORE_DESCRIPTORS_MAX))
