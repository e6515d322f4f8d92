"""Whatever somebody hands in as a segment is refused as bad input, or is exactly what it says."""

from unittest.mock import patch

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.property.entries_strategies import changes as changes_by_path

from lakebed.errors import InvalidInputError
from lakebed.format.blocks import change_block
from lakebed.format.segment_check import check_segment
from lakebed.format.segments import decode_dataset, decode_footer, encode_segment
from lakebed.model.entries import Tombstone

# A segment that is handed in names the checksum of every object.
changes_lists = changes_by_path.map(
    lambda chosen: [each for each in chosen.values() if isinstance(each, Tombstone) or each.checksum]
).filter(bool)


@given(changes_lists)
def test_what_our_own_writer_makes_is_taken(changes) -> None:
    block = change_block(changes)
    data = encode_segment({"d": block})

    footer = check_segment(data)

    dataset = footer.datasets["d"]
    assert decode_dataset(footer, "d", data[dataset.start : dataset.stop]).equals(block)


@settings(max_examples=200)
@given(changes_lists, st.data())
def test_damage_anywhere_is_refused_as_bad_input_or_changes_no_row(changes, data) -> None:
    block = change_block(changes)
    file = bytearray(encode_segment({"d": block}))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(file) - 1))
        file[at] = data.draw(st.integers(0, 255))
    damaged = bytes(file[: data.draw(st.sampled_from([len(file), len(file) - 1, len(file) // 2]))])

    try:
        check_segment(damaged)
    except InvalidInputError:
        return
    footer = decode_footer(damaged, size=len(damaged))
    (name,) = footer.datasets
    dataset = footer.datasets[name]
    assert decode_dataset(footer, name, damaged[dataset.start : dataset.stop]).equals(block)


@given(changes_lists, st.data())
def test_a_key_out_of_order_is_refused_by_its_row(changes, data) -> None:
    block = change_block(changes)
    if block.num_rows < 2:
        return
    order = data.draw(st.permutations(range(block.num_rows)))
    keys = block.column("key").take(pa.array(order))
    wrong = [n for n in range(1, len(keys)) if not pc.less(keys[n - 1], keys[n]).as_py()]
    if not wrong:
        return
    file = _unchecked(block.take(pa.array(order)))

    with pytest.raises(InvalidInputError, match=f"row {wrong[0]}: key is not greater"):
        check_segment(file)


def _unchecked(block: pa.Table) -> bytes:
    """Write a segment without looking at its order."""
    with patch("lakebed.format.segments._rise_apart", lambda keys, starts: True):
        return encode_segment({"d": block})
