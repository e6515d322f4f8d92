import hashlib

import numpy as np
import pyarrow as pa

from lakebed.format.blocks import ENTRY_SCHEMA
from lakebed.format.cut import DEFAULT_RULE, CutRule, Cutter, block_bytes, key_hashes, row_bytes

SMALL = CutRule(entries_expected=200, entries_max=400, bytes_max=1 << 40)


def numbered(rows, *, metadata=""):
    """A block of entries `k00000000` and on."""
    texts = {
        "key": [f"k{i:08}" for i in rows],
        "metadata": [metadata] * len(rows),
        "identity": [hashlib.md5(metadata.encode()).digest()] * len(rows),
    }
    numbers = {"size": [1] * len(rows), "mtime": [2] * len(rows)}
    columns = [texts.get(f.name) or numbers.get(f.name) or [""] * len(rows) for f in ENTRY_SCHEMA]
    return pa.table(
        [pa.array(c, f.type) for c, f in zip(columns, ENTRY_SCHEMA, strict=True)], schema=ENTRY_SCHEMA
    )


def lengths(block, rule, *, step=None):
    cutter = Cutter(rule)
    done = []
    for at in range(0, block.num_rows, step or block.num_rows):
        done += cutter.feed(block.slice(at, step or block.num_rows))
    rest = cutter.finish()
    return [r.num_rows for r in done] + ([rest.num_rows] if rest is not None else [])


def test_the_hash_of_known_keys_never_changes():
    keys = ["", "a", "12345678", "123456789", "tables/date=2024-01-01/part-0.parquet", "é\U0001f600"]

    assert key_hashes(pa.array(keys)).tolist() == [
        0,
        14578283449417555692,
        14702278806454114811,
        12635632432597988128,
        10319663365081265140,
        15046208919453859875,
    ]


def test_the_cuts_of_known_keys_never_change():
    keys = pa.array([f"k{i:08}" for i in range(400_000)])
    ends = np.flatnonzero(key_hashes(keys) % np.uint64(DEFAULT_RULE.entries_expected) == 0)

    assert ends.tolist() == [
        32960,
        38704,
        99488,
        113885,
        142043,
        196149,
        210963,
        220768,
        247888,
        295387,
        356637,
    ]
    assert lengths(numbered(range(160_000)), DEFAULT_RULE) == [32961, 5744, 50834, 9950, 14397, 28158, 17956]
    assert lengths(numbered(range(3_000)), SMALL) == [
        201,
        206,
        200,
        118,
        99,
        200,
        187,
        200,
        203,
        201,
        80,
        205,
        206,
        170,
        8,
        73,
        203,
        202,
        38,
    ]
    heavy = CutRule(entries_expected=200, entries_max=400, bytes_max=20_000)
    assert lengths(numbered(range(1_000), metadata="m" * 100), heavy) == [
        81,
        72,
        71,
        86,
        72,
        25,
        72,
        77,
        71,
        73,
        25,
        74,
        25,
        71,
        71,
        34,
    ]


def test_hashes_are_spread_evenly():
    hashes = key_hashes(pa.array([f"table/part-{i:06}.parquet" for i in range(100_000)]))

    assert len(np.unique(hashes)) == 100_000
    for modulus in (2, 3, 64, 1000):
        counts = np.bincount((hashes % np.uint64(modulus)).astype(np.int64), minlength=modulus)
        assert abs(counts - 100_000 / modulus).max() < 6 * (100_000 / modulus) ** 0.5


def test_cuts_do_not_depend_on_how_rows_are_fed():
    block = numbered(range(3_000), metadata="m" * 50)
    rule = CutRule(entries_expected=200, entries_max=250, bytes_max=30_000)

    whole = lengths(block, rule)
    assert len(whole) > 10
    for step in (1, 7, 250, 1_000):
        assert lengths(block, rule, step=step) == whole


def test_no_range_is_larger_than_its_caps():
    rule = CutRule(entries_expected=1 << 60, entries_max=100, bytes_max=1 << 40)
    assert lengths(numbered(range(250)), rule) == [100, 100, 50]

    by_size = CutRule(entries_expected=1 << 60, entries_max=1 << 40, bytes_max=10_000)
    row = block_bytes(numbered([0], metadata="m" * 500))
    assert lengths(numbered(range(50), metadata="m" * 500), by_size) == [-(-10_000 // row)] * 2 + [
        50 - 2 * -(-10_000 // row)
    ]


def test_caps_count_what_was_fed_before():
    by_rows = CutRule(entries_expected=1 << 60, entries_max=100, bytes_max=1 << 40)
    by_size = CutRule(entries_expected=1 << 60, entries_max=1 << 40, bytes_max=10_000)
    block = numbered(range(250), metadata="m" * 500)
    for rule in (by_rows, by_size):
        assert lengths(block, rule, step=7) == lengths(block, rule)


def test_one_new_row_moves_few_cuts_even_where_only_sizes_cut():
    rule = CutRule(entries_expected=6_400, entries_max=1 << 40, bytes_max=200_000)
    before, after = numbered(range(1, 6_000), metadata="m" * 400), numbered(range(6_000), metadata="m" * 400)
    ends = [set(np.cumsum(lengths(block, rule)[::-1])) for block in (before, after)]

    # Counted from the far end, the cuts behind the new row are the same ones.
    assert len(ends[0]) > 15
    assert len(ends[0] ^ ends[1]) <= 4


def test_bytes_of_a_row_are_those_of_its_texts_and_numbers():
    block = numbered([1], metadata="éé")

    assert row_bytes(block).tolist() == [len("k00000001") + 4 + 16 + 16]
    assert block_bytes(block) == 45


def test_a_key_that_ends_every_range_is_known_as_such():
    rule = CutRule(entries_expected=50)
    ended = [r for r in Cutter(rule).feed(numbered(range(3_000))) if r.num_rows < 50]

    assert len(ended) > 10
    assert all(rule.ends_by_key(r.column("key")[-1].as_py()) for r in ended)
    assert not any(rule.ends_by_key(r.column("key")[0].as_py()) for r in ended if r.num_rows > 1)
