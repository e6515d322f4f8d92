import io

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.unit.format.golden import ENTRIES, FOLDER, RANGE_HASH

from lakebed.errors import CorruptError, ErrorKind
from lakebed.format import parquet
from lakebed.format.blocks import block_entries, entry_block
from lakebed.format.hashing import range_hash
from lakebed.format.ranges import RANGE_FILE, decode_range, encode_range

GOLDEN = (FOLDER / "ranges" / "v1.parquet").read_bytes()
BLOCK = entry_block(ENTRIES)


def test_version_1_is_read_for_ever():
    assert block_entries(decode_range(GOLDEN, expected_hash=RANGE_HASH)) == ENTRIES


def test_what_is_encoded_comes_back():
    assert decode_range(encode_range(BLOCK)).equals(BLOCK)


def test_a_range_is_plain_parquet_to_others():
    found = pl.read_parquet(io.BytesIO(GOLDEN))

    assert found["key"].to_list() == [e.path for e in ENTRIES]
    assert found["size"].sum() == sum(e.size_bytes for e in ENTRIES)


def test_the_file_says_what_it_is_and_how_it_is_sorted():
    metadata = pq.ParquetFile(io.BytesIO(encode_range(BLOCK))).metadata

    assert metadata.metadata == {
        b"lakebed.format": b"range",
        b"lakebed.version": b"1",
        b"lakebed.entries": b"8",
    }
    group = metadata.row_group(0)
    assert [(c.column_index, c.descending) for c in group.sorting_columns] == [(0, False)]
    assert group.column(0).has_column_index
    assert group.column(0).has_offset_index
    assert {group.column(i).compression for i in range(8)} == {"ZSTD", "UNCOMPRESSED"}


def test_a_newer_version_is_refused_with_the_remedy(monkeypatch):
    data = parquet.encode(newer(RANGE_FILE), BLOCK)

    with pytest.raises(CorruptError, match="upgrade") as caught:
        decode_range(data)
    assert caught.value.kind is ErrorKind.NEWER_VERSION


@pytest.mark.parametrize("order", [[1, 0], [0, 0]], ids=["falling", "repeated"])
def test_keys_that_do_not_rise_are_refused(order):
    data = parquet.encode(RANGE_FILE, BLOCK.take(pa.array(order)))

    with pytest.raises(CorruptError) as caught:
        decode_range(data)
    assert caught.value.kind is ErrorKind.KEYS_OUT_OF_ORDER


def test_keys_that_do_not_rise_are_never_written():
    with pytest.raises(AssertionError):
        encode_range(BLOCK.take(pa.array([1, 0])))


@pytest.mark.parametrize(
    "table",
    [BLOCK.drop_columns(["mtime"]), BLOCK.rename_columns(["k", *BLOCK.column_names[1:]])],
    ids=["missing", "renamed"],
)
def test_other_columns_are_refused(table):
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(sink, table.schema) as writer:
        writer.write_table(table)
        writer.add_key_value_metadata(
            {"lakebed.format": "range", "lakebed.version": "1", "lakebed.entries": str(table.num_rows)}
        )

    with pytest.raises(CorruptError) as caught:
        decode_range(sink.getvalue().to_pybytes())
    assert caught.value.kind is ErrorKind.UNREADABLE


def test_parquet_of_somebody_else_is_refused():
    sink = pa.BufferOutputStream()
    pq.write_table(BLOCK, sink)

    with pytest.raises(CorruptError, match="not a range file"):
        decode_range(sink.getvalue().to_pybytes())


def test_rows_of_another_range_are_refused():
    with pytest.raises(CorruptError) as caught:
        decode_range(encode_range(BLOCK.slice(1)), expected_hash=range_hash(BLOCK))
    assert caught.value.kind is ErrorKind.CHECKSUM_MISMATCH


@pytest.mark.parametrize("size", [*range(0, len(GOLDEN), 101), len(GOLDEN) - 1])
def test_a_truncated_file_is_refused(size):
    with pytest.raises(CorruptError):
        decode_range(GOLDEN[:size])


@pytest.mark.parametrize("position", range(0, len(GOLDEN), 13))
def test_a_flipped_byte_is_refused_or_does_no_harm(position):
    damaged = bytearray(GOLDEN)
    damaged[position] ^= 0xFF

    # Not every byte of the footer matters to the rows (statistics, names of writers), so not every flip is seen.
    try:
        found = decode_range(bytes(damaged))
    except CorruptError:
        return
    assert found.equals(BLOCK)


def test_a_flipped_byte_in_any_column_is_a_checksum_mismatch():
    group = pq.ParquetFile(io.BytesIO(GOLDEN)).metadata.row_group(0)
    for index in range(group.num_columns):
        chunk = group.column(index)
        damaged = bytearray(GOLDEN)
        damaged[chunk.data_page_offset + chunk.total_compressed_size // 2 + 10] ^= 0x01

        with pytest.raises(CorruptError) as caught:
            decode_range(bytes(damaged))
        assert caught.value.kind is ErrorKind.CHECKSUM_MISMATCH, chunk.path_in_schema


def newer(kind):
    return parquet.FileKind(
        name=kind.name,
        version=kind.version + 1,
        schema=kind.schema,
        sort_key=kind.sort_key,
        dictionary=kind.dictionary,
    )
