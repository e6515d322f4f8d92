import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st
from tests.property.entries_strategies import paths, trees
from tests.unit.format.test_cut import numbered

from lakebed.committed.opened import OpenRange
from lakebed.format.blocks import block_entries, entry_block


@given(trees.filter(bool), st.sets(paths))
def test_find_equals_a_lookup_in_a_dict(tree, others):
    opened = OpenRange(entry_block(tree.values()))

    for path in {*tree, *others}:
        assert opened.find(path) == tree.get(path)


@given(trees.filter(bool), st.integers(0, 10), paths)
def test_a_slice_of_a_larger_block_is_searched_like_any_other(tree, start, path):
    entries = list(tree.values())[start:]
    block = pa.concat_tables([entry_block(tree.values())] * 2).combine_chunks()
    opened = OpenRange(block.slice(start, len(tree) - start))

    assert opened.find(path) == next((e for e in entries if e.path == path), None)
    assert block_entries(opened.between(path.encode(), None)) == [e for e in entries if e.path >= path]


def test_positions_are_found_across_all_steps_of_the_index():
    opened = OpenRange(numbered(range(0, 1_000, 2)))

    for number in range(-1, 1_001):
        assert opened.position(f"k{max(number, 0):08}".encode()) == (max(number, 0) + 1) // 2
    assert opened.position(b"") == 0
    assert opened.position(b"z") == 500
    assert opened.between(b"k00000010", b"k00000020").column("size").length() == 5
    assert opened.between(b"k00000020", b"k00000010").num_rows == 0


def test_a_find_between_two_keys_finds_nothing():
    opened = OpenRange(numbered(range(0, 200, 2)))

    assert opened.find("k00000013") is None
    assert opened.find("") is None
    assert opened.find("zzz") is None
    assert opened.find("k00000128").path == "k00000128"
