"""Folding on blocks against dicts, and counts kept up to date against counts taken."""

import pyarrow as pa
import pyarrow.compute as pc
from hypothesis import given
from hypothesis import strategies as st
from tests.property.entries_strategies import changes, trees

from lakebed.compaction.counts import recounted
from lakebed.compaction.fold import fold
from lakebed.format.blocks import block_changes, change_block, entry_block
from lakebed.format.diff import compare_blocks
from lakebed.format.merge import apply_changes, newest_wins
from lakebed.format.segments import decode_dataset, decode_footer, encode_segment
from lakebed.model.compaction import JobKind, Source, Spec
from lakebed.model.ids import BranchName, CommitId, Nonce


def at(block: pa.Table, keys: pa.Array) -> pa.Table:
    return block.filter(pc.is_in(block.column("key"), value_set=keys))


stacks = st.lists(changes, min_size=1, max_size=4)


def spec(count: int) -> Spec:
    return Spec(
        branch=BranchName("main"),
        incarnation=Nonce("i"),
        kind=JobKind.FOLD,
        sources=tuple(Source(seq, f"t{seq}") for seq in range(count, 0, -1)),
        commit_id=CommitId("1" * 64),
        compacted=None,
        reason="",
    )


@given(stacks)
def test_a_fold_holds_the_newest_change_of_each_path_and_every_tombstone(stack):
    folded = fold([change_block(run.values()) for run in stack], spec(len(stack)), level=1, era=3, token=9)

    model = {path: change for run in reversed(stack) for path, change in run.items()}
    layer = folded.output.layer
    if layer is None:
        assert not model
        return
    footer = decode_footer(folded.data, size=len(folded.data))
    dataset = footer.datasets["i"]
    found = block_changes(decode_dataset(footer, "i", folded.data[dataset.start : dataset.stop]))
    assert {change.path: change for change in found} == model
    assert (layer.id, layer.level, layer.seq) == ("00000003-i-9", 2, len(stack))
    assert layer.entries + layer.tombstones == len(model)


@given(stacks, trees, st.data())
def test_folding_any_neighbours_changes_no_tree_made_from_them(stack, base, data):
    start = data.draw(st.integers(0, len(stack) - 1))
    stop = data.draw(st.integers(start + 1, len(stack)))
    blocks = [change_block(run.values()) for run in stack]
    folded = [*blocks[:start], newest_wins(blocks[start:stop]), *blocks[stop:]]

    below = entry_block(base.values())
    assert apply_changes(below, newest_wins(folded))[0].equals(apply_changes(below, newest_wins(blocks))[0])


@given(trees, changes, changes)
def test_counts_kept_up_to_date_are_the_counts_of_the_two_trees(base, first, second):
    commit = entry_block(base.values())
    compacted, counts = apply_changes(commit, change_block(first.values()))

    step = change_block(second.values())
    after, _ = apply_changes(compacted, step)
    keys = pa.array(second, pa.string())
    kept = recounted(counts, base=at(commit, keys), before=at(compacted, keys), changes=step)
    assert kept == compare_blocks(commit, after).counts


@given(st.dictionaries(st.text("abc", min_size=1, max_size=3), changes.filter(bool), min_size=1, max_size=5))
def test_every_dataset_of_a_segment_comes_back_alone(datasets):
    blocks = {name: change_block(run.values()) for name, run in datasets.items()}
    data = encode_segment(blocks)

    footer = decode_footer(data, size=len(data))
    for name, block in blocks.items():
        place = footer.datasets[name]
        assert decode_dataset(footer, name, data[place.start : place.stop]).equals(block)
