import pytest
from msgspec.structs import replace
from tests.unit.format.golden import ENTRIES, RANGE_HASH

from lakebed.format.blocks import empty_entries, entry_block
from lakebed.format.hashing import range_hash


def test_the_hash_of_known_rows_never_changes():
    assert range_hash(entry_block(ENTRIES)) == RANGE_HASH
    assert range_hash(empty_entries()) == "c1bead63b36e6bb850bcf2c42c4cacaab53fb72f37a19b9b4ef6e49eb9ae9f6e"


@pytest.mark.parametrize(
    "change",
    [
        {"path": "0"},
        {"address": "data/x/y"},
        {"checksum": "x"},
        {"size_bytes": 1},
        {"mtime": 1},
        {"content_type": "x"},
        {"metadata": {"x": "y"}},
    ],
    ids=lambda change: next(iter(change)),
)
def test_every_column_counts(change):
    assert range_hash(entry_block([replace(ENTRIES[0], **change), *ENTRIES[1:]])) != RANGE_HASH


def test_where_one_text_ends_and_the_next_begins_counts():
    first, second = replace(ENTRIES[0], address="ab"), replace(ENTRIES[1], address="c")
    moved = [replace(first, address="a"), replace(second, address="bc")]

    assert range_hash(entry_block([first, second])) != range_hash(entry_block(moved))
