import numpy as np
import pyarrow as pa
from tests.unit.format.test_cut import numbered

from lakebed.format.blocks import empty_changes, empty_entries
from lakebed.format.columns import STEP_ROWS, align, column, search, take
from lakebed.format.merge import apply_changes, as_changes, as_tombstones, newest_wins
from lakebed.model.diffs import ChangeCounts


def test_no_runs_merge_to_nothing():
    assert newest_wins([]).equals(empty_changes())
    assert newest_wins([empty_changes()]).equals(empty_changes())


def test_a_tombstone_over_nothing_is_no_change():
    entries = numbered(range(10))

    for below in (entries, empty_entries()):
        result, counts = apply_changes(below, as_tombstones(pa.array(["nothing"])))
        assert result is below
        assert counts == ChangeCounts()


def test_a_few_changes_to_many_rows_copy_none_of_them():
    entries = numbered(range(5_000))
    allocated = pa.total_allocated_bytes()
    result, _ = apply_changes(entries, as_changes(numbered([7, 4_000], metadata="new")))

    assert pa.total_allocated_bytes() - allocated < entries.nbytes / 10
    assert result.num_rows == 5_000
    assert result.column("metadata")[7].as_py() == result.column("metadata")[4_000].as_py() == "new"


def test_more_rows_than_are_copied_at_once_come_out_whole():
    rows = np.arange(STEP_ROWS + 5)[::-1].copy()
    block = numbered(range(STEP_ROWS + 5)).select(["key", "size"])

    taken = take(block, rows)

    assert taken.num_rows == STEP_ROWS + 5
    assert taken.column("key")[0].as_py() == f"k{STEP_ROWS + 4:08}"
    assert taken.column("key")[-1].as_py() == "k00000000"


def test_few_and_many_needles_are_found_alike():
    keys = column(numbered(range(0, 20_000, 2)), "key")
    for step in (1, 3, 1_000, 7_001):
        wanted = range(0, 20_002, step)
        needles = column(numbered(wanted), "key")

        assert search(keys, needles).tolist() == [min((n + 1) // 2, 10_000) for n in wanted]
        assert align(needles, keys).tolist() == [n // 2 if n % 2 == 0 and n < 20_000 else -1 for n in wanted]
