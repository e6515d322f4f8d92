"""How a compacted tree differs from the commit's, kept up to date without comparing the trees.

The first tree over a commit is counted by `Trees.apply` itself. Every later one is made from the
one before, and a path may be changed twice, or added and removed again; but only paths
among the changes can count differently than before.
"""

import pyarrow as pa

from lakebed.format.diff import compare_blocks
from lakebed.format.merge import without_tombstones
from lakebed.model.diffs import ChangeCounts


def recounted(counts: ChangeCounts, *, base: pa.Table, before: pa.Table, changes: pa.Table) -> ChangeCounts:
    """Return the counts of a compacted tree after a block of changes to it.

    `base` and `before` are the entries that the commit's tree and the compacted tree have at the keys of `changes`.
    """
    old = compare_blocks(base, before).counts
    new = compare_blocks(base, without_tombstones(changes)).counts
    return ChangeCounts(
        added=counts.added + new.added - old.added,
        changed=counts.changed + new.changed - old.changed,
        removed=counts.removed + new.removed - old.removed,
    )
