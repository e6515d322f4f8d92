"""Rows that are sorted in runs on disk come out as if they had been sorted in memory."""

from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lakebed.env.clock import Instant
from lakebed.env.work import InlineWorkers
from lakebed.format.blocks import ENTRY_SCHEMA, entry_block
from lakebed.model.entries import Entry
from lakebed.model.ids import Path as ObjectPath
from lakebed.versioning.sorted_rows import SortedRows

keys = st.text(st.sampled_from("a-./0ü\U0001f30a"), min_size=1, max_size=4)
blocks = st.lists(st.lists(st.tuples(keys, st.integers(0, 9)), max_size=6), max_size=12)


def block(rows: list[tuple[str, int]]) -> pa.Table:
    """Rows in the order given, which no entry block of ours has: an import lists as its source does."""
    return entry_block(
        Entry(path=ObjectPath(key), address=f"x://{n}", checksum=f"{n}", size_bytes=n, mtime=Instant(n))
        for key, n in rows
    )


@given(added=blocks, run_rows=st.integers(1, 10))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=150)
async def test_sorting_in_runs_equals_sorting_in_memory(
    tmp_path_factory: pytest.TempPathFactory, added: list[list[tuple[str, int]]], run_rows: int
) -> None:
    rows = SortedRows(tmp_path_factory.mktemp("runs"), InlineWorkers(), run_rows=run_rows)
    last: dict[str, int] = {}
    for each in added:
        await rows.add(block(each))
        last.update(each)

    found = [part async for part in rows.blocks()]
    expected = block(sorted(last.items(), key=lambda row: row[0].encode()))
    got = pa.concat_tables([ENTRY_SCHEMA.empty_table(), *found])
    assert got.combine_chunks().equals(expected.combine_chunks())


async def test_runs_go_to_disk_and_the_last_rows_stay(tmp_path: Path) -> None:
    rows = SortedRows(tmp_path, InlineWorkers(), run_rows=3)
    for number in range(5):
        await rows.add(block([(f"{number}", number), (f"{9 - number}", number)]))
    assert len(list(tmp_path.iterdir())) == 2
    found = [key for part in [p async for p in rows.blocks()] for key in part.column("key").to_pylist()]
    assert found == [f"{n}" for n in range(10)]
