"""Block code equals row code: the vectorised functions against plain loops over dicts."""

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st
from tests.property import rowcode
from tests.property.entries_strategies import changes, paths, trees

from lakebed.format.blocks import block_changes, block_entries, change_block, entry_block
from lakebed.format.columns import align, search
from lakebed.format.compare import identities_differ
from lakebed.format.cut import key_hashes
from lakebed.format.diff import DIFF_SCHEMA, compare_blocks, diff_blocks, mark_conflicts, merge_blocks
from lakebed.format.hashing import range_hash
from lakebed.format.identity import alike
from lakebed.format.merge import (
    apply_changes,
    as_changes,
    as_tombstones,
    keep_alike,
    newest_wins,
    without_tombstones,
)
from lakebed.format.ranges import decode_range, encode_range
from lakebed.model.diffs import ChangeCounts, DiffType, MergeStrategy
from lakebed.model.entries import Entry, Tombstone

strategies = st.sampled_from(MergeStrategy)


@given(st.lists(changes, max_size=4))
def test_newest_wins_equals_writing_oldest_to_newest_into_a_dict(runs):
    merged = newest_wins([change_block(run.values()) for run in runs])

    model = rowcode.newest_wins(runs)
    assert block_changes(merged) == [model[path] for path in sorted(model)]


@given(st.lists(changes, max_size=4), st.data())
def test_merging_any_neighbours_first_changes_nothing(runs, data):
    blocks = [change_block(run.values()) for run in runs]
    start = data.draw(st.integers(0, len(blocks)))
    end = data.draw(st.integers(start, len(blocks)))

    folded = newest_wins([*blocks[:start], newest_wins(blocks[start:end]), *blocks[end:]])

    assert folded.equals(newest_wins(blocks))


@given(changes)
def test_without_tombstones_leaves_the_entries(run):
    kept = without_tombstones(change_block(run.values()))

    assert block_entries(kept) == [c for c in run.values() if isinstance(c, Entry)]


@given(trees, changes, st.booleans())
def test_apply_equals_changing_a_dict(tree, run, exact):
    entries = entry_block(tree.values())
    result, counts = apply_changes(entries, change_block(run.values()), exact=exact)

    model, model_counts = rowcode.apply_changes(tree, run, exact=exact)
    assert block_entries(result) == [model[path] for path in sorted(model)]
    assert counts == model_counts
    assert (result is entries) == (model == tree)


@given(trees, changes)
def test_keeping_what_is_alike_equals_choosing_path_by_path(tree, run):
    committed = entry_block(tree.values())
    kept = keep_alike(change_block(run.values()), committed)

    assert block_changes(kept) == list(rowcode.keep_alike(run, tree).values())
    assert apply_changes(committed, kept, exact=True)[0].equals(
        apply_changes(committed, change_block(run.values()))[0]
    )


@given(trees, trees)
def test_alike_is_one_rule_for_two_entries_and_for_many(left, right):
    paths = sorted({*left} & {*right})
    rows = np.arange(len(paths))
    blocks = [entry_block([side[path] for path in paths]) for side in (left, right)]

    differ = identities_differ(blocks[0], rows, blocks[1], rows)
    assert [not alike(left[path], right[path]) for path in paths] == differ.tolist()
    assert [not rowcode.alike(left[path], right[path]) for path in paths] == differ.tolist()


@given(trees, trees, trees)
def test_a_difference_is_a_conflict_if_the_other_side_made_another_one(base, left, right):
    found = diff_blocks(entry_block(base.values()), entry_block(right.values()))
    marked = mark_conflicts(found, entry_block(base.values()), entry_block(left.values()))

    expected = [
        DiffType.CONFLICT
        if not rowcode.alike(left.get(entry.path), base.get(entry.path))
        and not rowcode.alike(left.get(entry.path), right.get(entry.path))
        else kind
        for kind, entry in rowcode.diff(base, right)
    ]
    assert [DiffType(kind) for kind in marked.column("type").to_pylist()] == expected
    assert marked.drop_columns(["type"]).equals(found.drop_columns(["type"]))


@given(trees, changes, st.integers(0, 20))
def test_apply_in_two_steps_of_any_size_is_the_same(tree, run, cut):
    block = change_block(run.values())
    once, _ = apply_changes(entry_block(tree.values()), block)
    half, _ = apply_changes(entry_block(tree.values()), block.slice(0, cut))
    twice, _ = apply_changes(half, block.slice(cut))

    assert twice.equals(once)


@given(trees, trees)
def test_diff_equals_comparing_dicts(left, right):
    found = diff_blocks(entry_block(left.values()), entry_block(right.values()))

    assert found.schema.equals(DIFF_SCHEMA)
    types = [DiffType(t) for t in found.column("type").to_pylist()]
    assert list(zip(types, block_entries(found), strict=True)) == rowcode.diff(left, right)


@given(trees, trees)
def test_applying_a_diff_gives_the_right_side_to_a_user(left, right):
    ours, theirs = entry_block(left.values()), entry_block(right.values())
    delta = compare_blocks(ours, theirs)
    written = np.sort(np.concatenate([delta.added, delta.changed]))
    script = newest_wins(
        [
            as_changes(theirs.take(pa.array(written))),
            as_tombstones(ours.column("key").take(pa.array(delta.removed))),
        ]
    )

    result, counts = apply_changes(ours, script)

    assert diff_blocks(result, theirs).num_rows == 0
    assert counts == delta.counts


@given(trees, trees, trees, strategies)
def test_three_way_merge_equals_deciding_path_by_path(base, source, dest, strategy):
    decided = merge_blocks(
        entry_block(base.values()),
        entry_block(source.values()),
        entry_block(dest.values()),
        strategy=strategy,
    )
    result, _ = apply_changes(entry_block(dest.values()), decided.changes, exact=True)

    model, conflicts = rowcode.merge(base, source, dest, strategy)
    assert decided.conflicts.to_pylist() == (conflicts if strategy is MergeStrategy.NONE else [])
    assert block_entries(result) == [model[path] for path in sorted(model)]


@given(trees, trees)
def test_merging_a_side_that_did_not_change_gives_the_other(base, other):
    ours, theirs = entry_block(base.values()), entry_block(other.values())

    forward = merge_blocks(ours, theirs, ours, strategy=MergeStrategy.NONE)
    backward = merge_blocks(ours, ours, theirs, strategy=MergeStrategy.NONE)

    assert apply_changes(ours, forward.changes, exact=True)[0].equals(theirs)
    assert apply_changes(theirs, backward.changes) == (theirs, ChangeCounts())


@given(st.lists(paths, unique=True), st.lists(paths, unique=True))
def test_search_and_align_equal_a_search_of_lists(keys, needles):
    keys, needles = sorted(keys), sorted(needles)
    stored, wanted = pa.array(keys, pa.string()), pa.array(needles, pa.string())

    assert search(stored, wanted).tolist() == [sum(k < n for k in keys) for n in needles]
    assert align(wanted, stored).tolist() == [keys.index(n) if n in keys else -1 for n in needles]


@given(trees.filter(bool), st.integers(1, 7))
def test_hash_and_file_do_not_depend_on_how_a_block_is_sliced(tree, step):
    block = entry_block(tree.values())
    pieces = pa.concat_tables([block.slice(at, step) for at in range(0, block.num_rows, step)])
    shifted = pa.concat_tables([block, block]).combine_chunks().slice(block.num_rows)

    assert range_hash(pieces) == range_hash(shifted) == range_hash(block)
    assert decode_range(encode_range(pieces), expected_hash=range_hash(block)).equals(block)


@given(trees, trees)
def test_hashes_are_equal_if_and_only_if_rows_are(left, right):
    same = range_hash(entry_block(left.values())) == range_hash(entry_block(right.values()))

    assert same == (left == right)


@given(st.lists(st.text(max_size=40)))
def test_key_hashes_equal_the_written_definition(keys):
    assert key_hashes(pa.array(keys, pa.string())).tolist() == [defined_hash(key.encode()) for key in keys]


@given(st.lists(st.text(max_size=40)), st.integers(0, 5))
def test_key_hashes_do_not_depend_on_neighbours(keys, start):
    array = pa.array(keys, pa.string())

    assert key_hashes(array.slice(start)).tolist() == key_hashes(array).tolist()[start:]


@given(st.sets(paths))
def test_tombstones_delete_exactly_their_keys(keys):
    block = as_tombstones(pa.array(sorted(keys), pa.string()))

    assert block_changes(block) == [Tombstone(path=key) for key in sorted(keys)]


def defined_hash(key: bytes) -> int:
    """Restate the docstring of `format.cut` in plain integers."""
    bits = (1 << 64) - 1
    h = len(key) * 0x9E3779B97F4A7C15 & bits
    for at in range(0, len(key), 8):
        h = (h ^ int.from_bytes(key[at : at + 8], "little")) * 0xFF51AFD7ED558CCD & bits
        h ^= h >> 32
    h = (h ^ h >> 33) * 0xFF51AFD7ED558CCD & bits
    h = (h ^ h >> 33) * 0xC4CEB9FE1A85EC53 & bits
    return h ^ h >> 33
