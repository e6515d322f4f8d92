"""What a stash holds: the uncommitted changes of a branch as segments, tombstones among them.

One segment, or as many as keep each within what a reader decodes whole. Changes stay blocks all the way from
the layers into the file: nothing here makes an object of an entry, and no more than one segment is held.

A segment carries its era and is referred to by nobody until the stash's record is written; `refs/segment_sweeper.py`
says what keeps it until the stash counts.
"""

from collections.abc import AsyncGenerator
from contextlib import aclosing

import pyarrow as pa

from lakebed.format.columns import column
from lakebed.format.merge import as_tombstones, newest_wins
from lakebed.limits import SEGMENT_BYTES_MAX, SEGMENT_ROWS_MAX
from lakebed.model.branch import Branch
from lakebed.model.ids import Nonce
from lakebed.model.layers import SegmentLayer
from lakebed.model.repository import Repository
from lakebed.model.segments import SegmentName, era_at
from lakebed.versioning.parts import Parts
from lakebed.versioning.uncommitted import diff_as_changes, diff_uncommitted


async def write_stash_layers(
    parts: Parts, repo: Repository, branch: Branch, *, rows_max: int = SEGMENT_ROWS_MAX
) -> tuple[SegmentLayer, ...]:
    """Store how a branch differs from its commit; return the layers, none if it does not."""
    layers: list[SegmentLayer] = []
    async with aclosing(_pieces(parts, repo, branch, rows_max=rows_max)) as pieces:
        async for piece in pieces:
            name = SegmentName(era_at(await parts.kv.now()), Nonce(parts.ids.token()))
            layers.append(await parts.segments.write(repo, str(name), branch.incarnation, piece))
    return tuple(layers)


async def _pieces(
    parts: Parts, repo: Repository, branch: Branch, *, rows_max: int
) -> AsyncGenerator[pa.Table, None]:
    """Yield the changes in key order, each time as many as one segment holds."""
    held: list[pa.Table] = []
    rows, size = 0, 0
    async with aclosing(diff_uncommitted(parts, repo, branch)) as blocks:
        async for block in blocks:
            changes = _changes(block)
            if held and (rows + changes.num_rows > rows_max or size + changes.nbytes > SEGMENT_BYTES_MAX):
                yield pa.concat_tables(held)
                held, rows, size = [], 0, 0
            held.append(changes)
            rows += changes.num_rows
            size += changes.nbytes
    if held:
        yield pa.concat_tables(held)


def _changes(block: pa.Table) -> pa.Table:
    """Return a diff block as changes; a tombstone says nothing of what was there."""
    changes = diff_as_changes(block)
    removed = changes.filter(changes.column("deleted"))
    return newest_wins([as_tombstones(column(removed, "key")), changes])
