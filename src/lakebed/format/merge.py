"""Which write to a path counts, answered on whole blocks. Pure.

Reads, commits and compaction all ask "which write to this key counts?" and
"what does a tree look like with these changes?". These are the only answers.
Nothing here loops over entries: positions come from one vectorised search and
rows move by one `take` a block.
"""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakebed.format.blocks import CHANGE_SCHEMA, ENTRY_SCHEMA, empty_changes
from lakebed.format.columns import align, column, found_at, mask, search, take
from lakebed.format.compare import identities_differ, rows_differ
from lakebed.model.diffs import ChangeCounts

_DELETED = CHANGE_SCHEMA.field("deleted")


def newest_wins(runs: Sequence[pa.Table]) -> pa.Table:
    """Merge change blocks, newest first, into one with each key once.

    Tombstones are kept: whether one may be dropped depends on what lies below,
    which only the caller knows (see `without_tombstones`).
    """
    filled = [run for run in runs if run.num_rows]
    if not filled:
        return empty_changes()
    if len(filled) == 1:
        return filled[0]
    rows = pa.concat_tables(filled)
    # The sort is stable, so of equal keys the newest comes first.
    order = pc.sort_indices(rows.column("key")).to_numpy().astype(np.int64)
    keys = column(take(rows.select(["key"]), order), "key")
    newest = np.ones(len(order), np.bool_)
    newest[1:] = mask(pc.not_equal(keys.slice(1), keys.slice(0, len(keys) - 1)))
    return take(rows, order[newest])


def without_tombstones(changes: pa.Table) -> pa.Table:
    """Return the entries of a change block. Correct only when nothing older lies below it."""
    deleted = column(changes, "deleted")
    rows = changes.select(ENTRY_SCHEMA.names)
    return rows.filter(pc.invert(deleted)) if deleted.true_count else rows


def as_changes(entries: pa.Table) -> pa.Table:
    """Return an entry block as changes that set those entries."""
    deleted = pa.repeat(pa.scalar(value=False, type=pa.bool_()), entries.num_rows)
    return entries.append_column(_DELETED, deleted)


def as_tombstones(keys: pa.Array) -> pa.Table:
    """Return a change block that deletes these keys."""
    rows = len(keys)
    empty = {pa.string(): "", pa.binary(): b"", pa.int64(): 0}
    others = [pa.repeat(pa.scalar(empty[f.type], f.type), rows) for f in ENTRY_SCHEMA if f.name != "key"]
    return pa.table(
        [keys, *others, pa.repeat(pa.scalar(value=True, type=pa.bool_()), rows)], schema=CHANGE_SCHEMA
    )


def keep_alike(changes: pa.Table, committed: pa.Table) -> pa.Table:
    """Return changes with the committed row, and its address, in the place of each that a user cannot tell from it.

    `committed` are the entries that the commit's tree has at the keys of `changes`; there may be others.
    """
    at = align(column(changes, "key"), column(committed, "key"))
    common = np.flatnonzero((at >= 0) & ~mask(column(changes, "deleted")))
    kept = common[~identities_differ(committed, at[common], changes, common)]
    if len(kept) == 0:
        return changes
    order = np.arange(changes.num_rows, dtype=np.int64)
    order[kept] = changes.num_rows + at[kept]
    return take(pa.concat_tables([changes, as_changes(committed)]), order)


def apply_changes(
    entries: pa.Table, changes: pa.Table, *, exact: bool = False
) -> tuple[pa.Table, ChangeCounts]:
    """Return the entries with the changes applied, and how many paths differ for a user.

    A tombstone over nothing counts nothing. Neither does an entry that is alike to the one below: the row below
    stays, with its address and time, unless `exact`: then the new row takes its place. If no row changes, the
    result is `entries` itself.
    """
    if entries.num_rows == 0:
        created = without_tombstones(changes)
        return created if created.num_rows else entries, ChangeCounts(added=created.num_rows)
    keys = column(changes, "key")
    at = search(column(entries, "key"), keys)
    hit = found_at(column(entries, "key"), keys, at)
    deleted = mask(column(changes, "deleted"))
    added = np.flatnonzero(~hit & ~deleted)
    removed = np.flatnonzero(hit & deleted)
    stays = np.flatnonzero(hit & ~deleted)
    changed = stays[identities_differ(entries, at[stays], changes, stays)]
    replaced = stays[rows_differ(entries, at[stays], changes, stays)] if exact else changed
    if len(added) + len(removed) + len(replaced) == 0:
        return entries, ChangeCounts()

    counts = ChangeCounts(added=len(added), changed=len(changed), removed=len(removed))
    # Rows of both blocks, numbered one after the other, in the order of the result.
    rows = entries.num_rows
    order = np.arange(rows, dtype=np.int64)
    order[at[replaced]] = rows + replaced
    order[at[removed]] = -1
    order = np.insert(order, at[added], rows + added)
    both = pa.concat_tables([entries, changes.select(ENTRY_SCHEMA.names)])
    return take(both, order[order >= 0]), counts
