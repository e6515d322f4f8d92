"""Which condemnations are final.

A commit's record names the attempt that condemned it. The condemnation is final once the mark of that
attempt is published; until then the collector may release the commit again. The run record of the
repository decides, so whoever copies commit records elsewhere asks here what their `condemned_by` means.
"""

from lakebed.env.clock import Instant
from lakebed.format.gc_state import decode_gc_state
from lakebed.format.layout import slice_opened
from lakebed.kv.port import KVStore
from lakebed.model.gc import GcState
from lakebed.model.repository import Repository
from lakebed.refs.keys import GC_STATE_KEY


def begun_at(name: str) -> Instant:
    """Return when a run or an attempt began; for what is no such name, the beginning of time."""
    try:
        return slice_opened(name)
    except ValueError:
        return Instant(0)


def is_final(state: GcState, condemner: str) -> bool:
    """Return whether commits with this condemner are condemned for ever."""
    if begun_at(condemner) <= state.settled_at:
        return True
    return any(mark.condemner == condemner for mark in state.marks)


async def read_gc_state(kv: KVStore, repo: Repository) -> GcState:
    """Return the run record of a repository; an empty one before its first collection."""
    item = await kv.get(repo.partition, GC_STATE_KEY)
    return decode_gc_state(item.value) if item is not None else GcState()
