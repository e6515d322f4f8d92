"""When staged rows are worth sealing for compaction, and when layers are worth merging. Pure and stateless.

Everything comes from a branch record and counts that its reader has; nothing is remembered
between two calls, so a process that starts knows as much as one that ran for a year. Time
counts as quiet: how long the record did not change. A record that keeps changing does so
because layers arrive, and then their number decides.
"""

from lakebed.compaction.limits import CompactionLimits
from lakebed.compaction.load import Load, Loads, total_load
from lakebed.env.clock import Instant, after
from lakebed.model.branch import Branch


def seal_reason(staged: Load, *, written_at: Instant, now: Instant, limits: CompactionLimits) -> str | None:
    """Return why the staging token should be sealed; None if not.

    `staged` is what writers know to lie in it, `written_at` when they last wrote.
    """
    if staged.rows >= limits.seal_rows:
        return f"{staged.rows} staged rows"
    if staged.rows >= limits.seal_quiet_rows and now >= after(written_at, limits.seal_quiet_seconds):
        return f"{staged.rows} staged rows and a pause"
    return None


def l2_reason(branch: Branch, *, loads: Loads, now: Instant, limits: CompactionLimits) -> str | None:
    """Return why sealed layers should go into the compacted tree; None if not."""
    load = total_load(branch.sealed, loads)
    count = len(branch.sealed)
    if count >= limits.l2_layers:
        return f"{count} layers"
    if count and is_quiet(branch, limits.l2_quiet_seconds, now):
        return f"{count} layers of a quiet branch"
    heavy = _heavy(load, limits)
    if heavy is None:
        return None
    differs = branch.compacted_counts.total if branch.compacted_counts is not None else 0
    if load.rows * limits.l2_share >= differs:
        return heavy
    pause = limits.l2_pause_seconds if branch.staging_token is None else limits.l2_rest_seconds
    return f"{heavy} and a pause" if is_quiet(branch, pause, now) else None


def _heavy(load: Load, limits: CompactionLimits) -> str | None:
    """Return by what a load is felt by readers; None if it is not."""
    if load.tombstones >= limits.l2_tombstones:
        return f"{load.tombstones} tombstones"
    if load.entries >= limits.l2_entries:
        return f"{load.entries} entries"
    return f"{load.bytes} bytes" if load.bytes >= limits.l2_bytes else None


def is_quiet(branch: Branch, seconds: float, now: Instant) -> bool:
    """Return whether the branch record has not changed for so long."""
    return now >= after(branch.updated_at, seconds)
