"""What bulk writers make of their tables."""

import datetime as dt

import pyarrow as pa
import pytest

from lakebed.errors import InvalidInputError
from lakebed.format.blocks import block_changes
from lakebed.format.handed_in import changes_of, segment_of
from lakebed.format.segment_check import check_segment
from lakebed.model.entries import Entry, Tombstone

ROWS = {
    "path": ["b", "é", "a"],
    "address": ["data/1", None, "s3://x/2"],
    "checksum": ["1", None, "2"],
    "size": [1, None, 2],
    "mtime": [5, None, 6],
}


def table(**columns: object) -> pa.Table:
    return pa.table({**ROWS, "deleted": [False, True, None], **columns})


def test_a_table_in_any_order_becomes_changes_in_that_of_their_paths() -> None:
    assert block_changes(changes_of(table())) == [
        Entry(path="a", address="s3://x/2", checksum="2", size_bytes=2, mtime=6),
        Entry(path="b", address="data/1", checksum="1", size_bytes=1, mtime=5),
        Tombstone(path="é"),
    ]


def test_what_is_made_here_is_taken_there() -> None:
    assert check_segment(segment_of(table())).datasets["changes"].rows == 3


def test_of_a_deletion_only_the_path_counts() -> None:
    filled = table(address=["data/1", "x", "s3://x/2"], metadata=["", '{"a": "b"}', None])
    assert changes_of(filled).equals(changes_of(table()))


@pytest.mark.parametrize(
    "metadata",
    [
        pa.array(['{"b": "2", "a": "1"}', None, '{"b": "2", "a": "1"}']),
        pa.array(
            [[("b", "2"), ("a", "1")], None, [("b", "2"), ("a", "1")]], pa.map_(pa.string(), pa.string())
        ),
        pa.array(['{"a":"1","b":"2"}', None, '{"a":"1","b":"2"}']).dictionary_encode(),
    ],
    ids=["text", "map", "dictionary"],
)
def test_metadata_may_be_text_or_a_map(metadata: pa.Array) -> None:
    found = changes_of(table(metadata=metadata))

    assert found.column("metadata").to_pylist() == ['{"a":"1","b":"2"}'] * 2 + [""]
    check_segment(segment_of(table(metadata=metadata)))


def test_a_time_may_be_a_timestamp_of_any_unit() -> None:
    at = dt.datetime(2026, 11, 15, tzinfo=dt.UTC)
    for unit in ("s", "ms", "us", "ns"):
        times = pa.array([at, None, at], pa.timestamp(unit, "UTC"))
        assert (
            changes_of(table(mtime=times)).column("mtime").to_pylist()[:2]
            == [int(at.timestamp()) * 10**6] * 2
        )


@pytest.mark.parametrize(
    ("columns", "why"),
    [
        ({"path": ["a", "b", "a"]}, "path 'a' is there twice"),
        ({"path": ["a", None, "b"]}, "column 'key', row 1: nothing is there"),
        ({"size": [1, None, None]}, "column 'size', row 2: nothing is there"),
        ({"size": ["x", "y", "z"]}, "column 'size'"),
        ({"metadata": ["[1]", "", ""]}, "metadata"),
    ],
)
def test_what_is_missing_or_wrong_is_named(columns: dict[str, object], why: str) -> None:
    with pytest.raises(InvalidInputError, match=why):
        changes_of(table(**columns))


@pytest.mark.parametrize("name", ["path", "address", "checksum", "size", "mtime"])
def test_a_column_that_is_needed_must_be_there(name: str) -> None:
    with pytest.raises(InvalidInputError, match=f"column '{name}' is missing"):
        changes_of(table().drop_columns([name]))


def test_nothing_is_no_segment() -> None:
    with pytest.raises(InvalidInputError, match="at least one row"):
        segment_of(table().slice(0, 0))
