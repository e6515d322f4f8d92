"""Where the records of compaction lie, in the partition that `refs.keys.compaction_partition` names."""

from typing import Final

SCHEDULE_KEY: Final = b"schedule"
LEASES_PREFIX: Final = b"leases/"


def lease_key(job: str, token: int) -> bytes:
    """Return the key of an attempt's heartbeat: its own, so that a stale worker keeps nobody else's lease alive."""
    return b"%s%s/%d" % (LEASES_PREFIX, job.encode(), token)
