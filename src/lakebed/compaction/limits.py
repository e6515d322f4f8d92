"""`CompactionLimits`: the numbers that decide when and how much is compacted, as one value.

The defaults and their reasons are in `lakebed.limits`. Operators raise one for a while, and tests
make them small; the pure functions here take them as an argument.
"""

from dataclasses import dataclass

from lakebed import limits


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionLimits:
    """Thresholds of sensor, planner and scheduler."""

    fold_layers: int = limits.FOLD_LAYERS
    fold_layers_max: int = limits.FOLD_LAYERS_MAX
    fold_rows_max: int = limits.SEGMENT_ROWS_MAX
    fold_bytes_max: int = limits.SEGMENT_BYTES_MAX
    fold_quiet_seconds: float = limits.FOLD_QUIET_SECONDS
    l2_layers: int = limits.L2_LAYERS
    l2_entries: int = limits.L2_ENTRIES
    l2_tombstones: int = limits.L2_TOMBSTONES
    l2_bytes: int = limits.L2_BYTES
    l2_share: int = limits.L2_SHARE
    l2_pause_seconds: float = limits.L2_PAUSE_SECONDS
    l2_rest_seconds: float = limits.L2_REST_SECONDS
    l2_quiet_seconds: float = limits.L2_QUIET_SECONDS
    l2_rows_max: int = limits.COMPACTION_ROWS_MAX
    l2_bytes_max: int = limits.COMPACTION_BYTES_MAX
    seal_rows: int = limits.SEAL_ROWS
    seal_quiet_rows: int = limits.SEAL_QUIET_ROWS
    seal_quiet_seconds: float = limits.SEAL_QUIET_SECONDS
    lease_seconds: float = limits.LEASE_SECONDS
    failures_max: int = limits.COMPACTION_FAILURES_MAX
    jobs_max: int = limits.COMPACTION_JOBS_MAX
    held_seconds: float = limits.COMPACTION_HELD_SECONDS
    held_max: int = limits.COMPACTION_HELD_MAX

    @property
    def heartbeat_seconds(self) -> float:
        """How often an attempt says that it is alive: as often in a lease as the usual ones do."""
        return self.lease_seconds * limits.HEARTBEAT_SECONDS / limits.LEASE_SECONDS
