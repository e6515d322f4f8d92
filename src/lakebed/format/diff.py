"""Differences between blocks, and the three-way decision, on whole blocks. Pure.

A diff is what a user sees: it shows what is not alike (`format.compare`). The three-way merge is
decided path by path in this order, where "equal" means equal in every column
(both absent is equal too):

    dest equal to base      the source's row, or its absence, is taken
    source equal to base    the dest's stays
    source alike dest       the dest's stays
    source alike base       the dest's stays: the source changed nothing a user sees
    dest alike base         the source's is taken
    otherwise               a conflict, decided by the strategy

Because the first two rules look at whole rows, merging ranges whole where their
hashes are equal gives exactly what merging them row by row would.
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakebed.format.blocks import ENTRY_SCHEMA
from lakebed.format.columns import Ints, Mask, align, column, mask, take
from lakebed.format.compare import identities_differ, rows_differ
from lakebed.format.merge import as_changes, as_tombstones, newest_wins
from lakebed.model.diffs import ChangeCounts, DiffType, MergeStrategy

# Typed, like every scalar here: to guess a type, Arrow looks for pandas each time.
_REMOVED = pa.scalar(DiffType.REMOVED.value, pa.string())
_CONFLICT = pa.scalar(DiffType.CONFLICT.value, pa.string())

DIFF_SCHEMA = pa.schema([pa.field("type", pa.string(), nullable=False), *ENTRY_SCHEMA])
"""`type` is a `DiffType`; the other columns are the right side's entry, or the left's where it was removed."""


@dataclass(frozen=True, slots=True)
class Delta:
    """Rows by which two blocks differ: of the right block what is new and what replaces, of the left what is gone."""

    added: Ints
    changed: Ints
    removed: Ints

    @property
    def counts(self) -> ChangeCounts:
        return ChangeCounts(added=len(self.added), changed=len(self.changed), removed=len(self.removed))


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolution:
    """What a merge does to the dest: changes to apply, and the keys in conflict if the strategy decides none."""

    changes: pa.Table
    conflicts: pa.Array


def diff_blocks(left: pa.Table, right: pa.Table) -> pa.Table:
    """Return the differences between two entry blocks of one key span, in key order."""
    delta = compare_blocks(left, right)
    kept = np.sort(np.concatenate([delta.added, delta.changed]))
    types = np.full(right.num_rows, DiffType.ADDED.value, dtype="U7")
    types[delta.changed] = DiffType.CHANGED.value
    ours = _typed(take(right, kept), pa.array(types[kept], pa.string()))
    if len(delta.removed) == 0:
        return ours
    gone = _typed(take(left, delta.removed), pa.repeat(_REMOVED, len(delta.removed)))
    if ours.num_rows == 0:
        return gone
    both = pa.concat_tables([ours, gone])
    return take(both, pc.sort_indices(both.column("key")).to_numpy().astype(np.int64))


def compare_blocks(left: pa.Table, right: pa.Table) -> Delta:
    """Return the rows by which two entry blocks differ for a user: those that are not alike."""
    in_left = align(column(right, "key"), column(left, "key"))
    common = np.flatnonzero(in_left >= 0)
    changed = identities_differ(left, in_left[common], right, common)
    return Delta(np.flatnonzero(in_left < 0), common[changed], _missing(left.num_rows, in_left[common]))


def merge_blocks(base: pa.Table, source: pa.Table, dest: pa.Table, *, strategy: MergeStrategy) -> Resolution:
    """Decide a three-way merge of entry blocks of one key span, by the rules above."""
    in_base = align(column(source, "key"), column(base, "key"))
    common = np.flatnonzero(in_base >= 0)
    touched = rows_differ(base, in_base[common], source, common)
    written = np.sort(np.concatenate([np.flatnonzero(in_base < 0), common[touched]]))
    removed = _missing(base.num_rows, in_base[common])

    taken, disputed = _decide_written(base, source, dest, written, in_base[written])
    dropped, disputed_drops = _decide_removed(base, dest, removed)
    if strategy is MergeStrategy.SOURCE_WINS:
        taken, dropped = taken | disputed, dropped | disputed_drops
    changes = newest_wins(
        [
            as_changes(take(source, written[taken])),
            as_tombstones(column(base, "key").take(pa.array(removed[dropped]))),
        ]
    )
    conflicts = pa.array([], pa.string())
    if strategy is MergeStrategy.NONE:
        keys = [
            column(source, "key").take(pa.array(written[disputed])),
            column(base, "key").take(pa.array(removed[disputed_drops])),
        ]
        conflicts = pa.concat_arrays(keys).sort()
    return Resolution(changes=changes, conflicts=conflicts)


def mark_conflicts(diff: pa.Table, base: pa.Table, left: pa.Table) -> pa.Table:
    """Return a diff block with those differences as conflicts that `left` changed, too, and to something else.

    `base` and `left` are the entries that the common ancestor and the other side have at the keys of `diff`.
    """
    keys = column(diff, "key")
    in_base, in_left = align(keys, column(base, "key")), align(keys, column(left, "key"))
    removed = mask(pc.equal(column(diff, "type"), _REMOVED))
    rows = np.where(removed, -1, np.arange(diff.num_rows, dtype=np.int64))

    def same(block: pa.Table, at: Ints) -> Mask:
        return ((in_left < 0) & (at < 0)) | _alike(left, in_left, block, at)

    disputed = ~same(base, in_base) & ~same(diff, rows)
    if not disputed.any():
        return diff
    types = pc.if_else(pa.array(disputed), _CONFLICT, column(diff, "type"))
    return diff.set_column(0, DIFF_SCHEMA.field("type"), types)


def _decide_written(
    base: pa.Table, source: pa.Table, dest: pa.Table, written: Ints, in_base: Ints
) -> tuple[Mask, Mask]:
    """Return which of the source's new rows are taken, and which are in conflict."""
    in_dest = align(column(source, "key").take(pa.array(written)), column(dest, "key"))
    has_base, has_dest = in_base >= 0, in_dest >= 0
    dest_equals_base = (~has_base & ~has_dest) | _equal_rows(base, in_base, dest, in_dest)
    like_dest = _alike(source, written, dest, in_dest)
    like_base = _alike(source, written, base, in_base)
    dest_like_base = _alike(base, in_base, dest, in_dest)
    stays = ~dest_equals_base & (like_dest | like_base)
    taken = dest_equals_base | (~stays & dest_like_base)
    return taken, ~taken & ~stays


def _decide_removed(base: pa.Table, dest: pa.Table, removed: Ints) -> tuple[Mask, Mask]:
    """Return which of the rows that the source removed leave the dest too, and which are in conflict."""
    in_dest = align(column(base, "key").take(pa.array(removed)), column(dest, "key"))
    dropped = _alike(base, removed, dest, in_dest)
    return dropped, (in_dest >= 0) & ~dropped


def _alike(left: pa.Table, left_rows: Ints, right: pa.Table, right_rows: Ints) -> Mask:
    """Return for each pair of rows whether both are there (not -1) and alike."""
    result = (left_rows >= 0) & (right_rows >= 0)
    both = np.flatnonzero(result)
    result[both] = ~identities_differ(left, left_rows[both], right, right_rows[both])
    return result


def _equal_rows(left: pa.Table, left_rows: Ints, right: pa.Table, right_rows: Ints) -> Mask:
    """Return for each pair of rows whether both are there (not -1) and equal in every column."""
    result = (left_rows >= 0) & (right_rows >= 0)
    both = np.flatnonzero(result)
    result[both] = ~rows_differ(left, left_rows[both], right, right_rows[both])
    return result


def _missing(rows: int, present: Ints) -> Ints:
    """Return which of so many rows are not among `present`."""
    absent = np.ones(rows, np.bool_)
    absent[present] = False
    return np.flatnonzero(absent)


def _typed(rows: pa.Table, types: pa.Array) -> pa.Table:
    return pa.table([types, *rows.columns], schema=DIFF_SCHEMA)
