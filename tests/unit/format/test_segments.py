import io
from itertools import pairwise

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from msgspec import structs
from tests.unit.format.golden import ENTRIES, FOLDER

from lakebed.errors import CorruptError, ErrorKind, InvalidInputError
from lakebed.format import parquet, segments
from lakebed.format.blocks import block_changes, change_block
from lakebed.format.bloom import key_hash
from lakebed.format.merge import as_tombstones
from lakebed.format.segment_check import check_segment
from lakebed.format.segments import (
    SEGMENT_FILE,
    decode_dataset,
    decode_footer,
    encode_segment,
    footer_bytes,
)
from lakebed.limits import SEGMENT_GROUP_ROWS_MIN
from lakebed.model.entries import Tombstone
from lakebed.model.layers import SegmentLayer

CHANGES = [Tombstone(path=e.path) if n % 3 == 1 else e for n, e in enumerate(ENTRIES)]
MAIN, DEV = change_block(CHANGES), change_block(CHANGES[2:5])
DATASETS = {"main-incarnation": MAIN, "dev-incarnation": DEV}
GOLDEN = (FOLDER / "segments" / "v1.parquet").read_bytes()


def decode(data: bytes) -> dict[str, pa.Table]:
    footer = decode_footer(data[-footer_bytes(data) :], size=len(data))
    return {n: decode_dataset(footer, n, data[d.start : d.stop]) for n, d in footer.datasets.items()}


def large(rows: int, letter: str = "k") -> pa.Table:
    return as_tombstones(pa.array([f"{letter}{n:08}" for n in range(rows)], pa.string()))


def test_version_1_is_read_for_ever():
    assert {name: block_changes(block) for name, block in decode(GOLDEN).items()} == {
        "main-incarnation": CHANGES,
        "dev-incarnation": CHANGES[2:5],
    }


def test_what_is_encoded_comes_back():
    assert {n: b for n, b in decode(encode_segment(DATASETS)).items() if b.equals(DATASETS[n])}.keys() == {
        *DATASETS
    }


def test_a_segment_is_plain_parquet_to_others():
    found = pl.read_parquet(io.BytesIO(GOLDEN))

    assert found["key"].to_list() == [c.path for c in CHANGES + CHANGES[2:5]]
    assert found["deleted"].sum() == 4


def test_a_layer_carries_the_statistics_of_its_dataset():
    data = encode_segment(DATASETS, level=2)
    dataset = decode_footer(data, size=len(data)).datasets["dev-incarnation"]

    layer = dataset.layer("00000001-n", seq=7)
    assert layer == SegmentLayer(
        id="00000001-n",
        dataset="dev-incarnation",
        seq=7,
        min_key=CHANGES[2].path,
        max_key=CHANGES[4].path,
        entries=2,
        tombstones=1,
        bytes=dataset.stop - dataset.start,
        level=2,
        hash=dataset.hash,
    )


def test_one_dataset_is_read_without_a_byte_of_the_others():
    datasets = {"a": large(2_000, "a"), "b": large(3_000, "b"), "c": large(1_500, "c")}
    data = encode_segment(datasets)
    footer = decode_footer(data[-footer_bytes(data) :], size=len(data))

    spans = sorted((d.start, d.stop) for d in footer.datasets.values())
    assert all(before[1] <= after[0] for before, after in pairwise(spans))
    for name, dataset in footer.datasets.items():
        assert decode_dataset(footer, name, data[dataset.start : dataset.stop]).equals(datasets[name])


def test_small_datasets_share_row_groups():
    data = encode_segment({f"d{n:03}": large(10) for n in range(250)})

    groups = pq.ParquetFile(io.BytesIO(data)).metadata.num_row_groups
    assert groups == -(-250 * 10 // SEGMENT_GROUP_ROWS_MIN)
    assert all(block.equals(large(10)) for block in decode(data).values())


def test_the_statistics_of_a_dataset_do_not_depend_on_its_neighbours():
    blocks = {f"d{n:02}": MAIN.slice(n % 5, 1 + n % 3) for n in range(40)}
    together = encode_segment(blocks)
    found = decode_footer(together, size=len(together)).datasets

    for name, block in blocks.items():
        alone = encode_segment({name: block})
        one = decode_footer(alone, size=len(alone)).datasets[name]
        assert (found[name].hash, found[name].bloom) == (one.hash, one.bloom)
        assert (found[name].min_key, found[name].max_key) == (one.min_key, one.max_key)
        assert found[name].tombstones == one.tombstones


def test_a_large_dataset_has_several_row_groups(monkeypatch):
    monkeypatch.setattr(segments, "SEGMENT_GROUP_ROWS", 700)
    datasets = {"small": large(10, "s"), "large": large(2_000, "l"), "last": large(5, "z")}

    found = decode(encode_segment(datasets))
    assert all(found[name].equals(block) for name, block in datasets.items())


def test_the_filter_of_a_dataset_knows_its_keys_and_tombstones():
    bloom = decode_footer(GOLDEN, size=len(GOLDEN)).datasets["main-incarnation"].bloom

    assert all(bloom.may_hold(key_hash(change.path)) for change in CHANGES)
    assert not bloom.may_hold(key_hash("absent"))


def test_a_newer_version_is_refused_with_the_remedy(monkeypatch):
    newer = parquet.FileKind(name="segment", version=2, schema=SEGMENT_FILE.schema, sort_key="")
    with monkeypatch.context() as patch:
        patch.setattr(segments, "SEGMENT_FILE", newer)
        data = encode_segment(DATASETS)

    with pytest.raises(CorruptError, match="upgrade") as caught:
        decode(data)
    assert caught.value.kind is ErrorKind.NEWER_VERSION


def test_a_dataset_that_is_not_there_is_missing():
    footer = decode_footer(GOLDEN, size=len(GOLDEN))

    with pytest.raises(CorruptError) as caught:
        decode_dataset(footer, "other", b"")
    assert caught.value.kind is ErrorKind.FILE_MISSING


def test_rows_of_another_dataset_are_refused():
    one, two = encode_segment({"d": large(50)}), encode_segment({"d": large(50, "x")})
    footer = decode_footer(one, size=len(one))
    dataset = footer.datasets["d"]

    with pytest.raises(CorruptError):
        decode_dataset(footer, "d", two[dataset.start : dataset.stop])


@pytest.mark.parametrize("size", [*range(0, len(GOLDEN), 101), len(GOLDEN) - 1])
def test_a_truncated_file_is_refused(size):
    with pytest.raises(CorruptError):
        decode(GOLDEN[:size])


@pytest.mark.parametrize("position", range(0, len(GOLDEN), 13))
def test_a_flipped_byte_is_refused_or_does_no_harm(position):
    damaged = bytearray(GOLDEN)
    damaged[position] ^= 0xFF

    # Not every byte of the footer matters to the rows (statistics of pages, names of writers).
    try:
        found = decode(bytes(damaged))
    except CorruptError:
        return
    assert all(found[name].equals(block) for name, block in DATASETS.items())


def test_unsorted_and_empty_datasets_are_never_written():
    for block in (MAIN.take(pa.array([1, 0])), MAIN.slice(0, 0)):
        with pytest.raises(AssertionError):
            encode_segment({"d": block})


def test_a_whole_segment_is_taken_from_a_bulk_writer():
    assert check_segment(GOLDEN).datasets.keys() == DATASETS.keys()


def with_column(block: pa.Table, name: str, row: int, value: object) -> pa.Table:
    values = block.column(name).to_pylist()
    values[row] = value
    field = block.schema.field(name)
    return block.set_column(block.schema.get_field_index(name), field, pa.array(values, field.type))


def with_bytes(block: pa.Table, name: str, row: int, value: bytes) -> pa.Table:
    """Put bytes where text belongs."""
    values = [text.encode() for text in block.column(name).to_pylist()]
    values[row] = value
    field = block.schema.field(name)
    texts = pa.array(values, pa.binary()).view(pa.string())
    return block.set_column(block.schema.get_field_index(name), field, texts)


ROWS = {
    "unsorted": (MAIN.take(pa.array([0, 2, 1])), "row 2: key is not greater"),
    "repeated": (MAIN.take(pa.array([0, 1, 1])), "row 2: key is not greater"),
    "no key": (with_column(MAIN, "key", 0, ""), "row 0: key does not have"),
    "long key": (with_column(MAIN, "key", 7, "\U0001f601" + "x" * 1024), "row 7: key does not have"),
    "negative size": (with_column(MAIN, "size", 2, -1), "row 2: size is negative"),
    "no address": (with_column(MAIN, "address", 3, ""), "row 3: address is empty"),
    "tombstone with address": (with_column(MAIN, "address", 4, "data/a/b"), "row 4: address of a tombstone"),
    "tombstone with size": (with_column(MAIN, "size", 1, 5), "row 1: size of a tombstone"),
    "identity": (with_column(MAIN, "identity", 5, b"short"), "row 5: identity does not have"),
    "metadata": (with_column(MAIN, "metadata", 5, "[1]"), "row 5: metadata is not a JSON object"),
    "another identity": (with_column(MAIN, "identity", 0, b"x" * 16), "row 0: identity is not that of"),
    "quotes": (with_column(MAIN, "checksum", 3, 'a"b'), "row 3: checksum is not"),
    "no checksum": (with_column(MAIN, "checksum", 2, ""), "row 2: checksum is not"),
    "metadata with spaces": (
        with_column(MAIN, "metadata", 5, '{"a": "b"}'),
        "row 5: metadata is not written as",
    ),
    "no text": (with_bytes(MAIN, "address", 3, b"data/\xff"), "row 3: address is not UTF-8"),
    "long metadata": (with_column(MAIN, "metadata", 5, "x" * 20_000), "row 5: metadata has more than"),
}


@pytest.mark.parametrize("name", ROWS)
def test_a_bulk_writers_bad_row_is_refused_by_number(name, monkeypatch):
    block, message = ROWS[name]
    monkeypatch.setattr(segments, "_rise_apart", lambda keys, starts: True)
    data = encode_segment({"fine": DEV, "wrong": block})

    with pytest.raises(InvalidInputError, match=f"'wrong', {message}"):
        check_segment(data)


def lie(monkeypatch: pytest.MonkeyPatch, **fields: object) -> None:
    """Write other statistics than the rows have."""
    honest = segments._statistics_of
    monkeypatch.setattr(
        segments, "_statistics_of", lambda *args: [structs.replace(one, **fields) for one in honest(*args)]
    )


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("level", 3),
        ("min_key", "\x00"),
        ("max_key", "zz"),
        ("tombstones", 0),
        ("hash", "0" * 64),
        ("bloom", b"\xff" * 8),
    ],
)
def test_a_bulk_writers_wrong_statistic_is_refused_by_name(field, value, monkeypatch):
    lie(monkeypatch, **{field: value})
    data = encode_segment(DATASETS)

    with pytest.raises(InvalidInputError, match=f"'main-incarnation': {field} does not fit"):
        check_segment(data)


@pytest.mark.parametrize("change", [{"rows": 4}, {"first_row": 1}, {"tombstones": 99}])
def test_datasets_that_are_out_of_place_are_refused(change, monkeypatch):
    lie(monkeypatch, **change)

    with pytest.raises(InvalidInputError, match="segment footer"):
        check_segment(encode_segment(DATASETS))


def test_rows_that_no_dataset_owns_are_refused(monkeypatch):
    lie(monkeypatch, rows=7)

    with pytest.raises(InvalidInputError, match="7 rows in datasets, 8 in the file"):
        check_segment(encode_segment({"d": MAIN}))


def test_a_corrupt_footer_is_refused_by_name():
    at = GOLDEN.index(b'"tombstones":') + len(b'"tombstones":')
    damaged = GOLDEN[:at] + bytes([GOLDEN[at] ^ 1]) + GOLDEN[at + 1 :]

    with pytest.raises(InvalidInputError, match=r"lakebed\.checksum does not fit"):
        check_segment(damaged)


def test_too_many_rows_are_refused(monkeypatch):
    monkeypatch.setattr("lakebed.format.segment_check.SEGMENT_ROWS_MAX", 7)

    with pytest.raises(InvalidInputError, match="8 rows, more than 7") as caught:
        check_segment(GOLDEN)
    assert caught.value.kind is ErrorKind.TOO_LARGE


def test_rows_that_unpack_to_more_than_memory_holds_are_refused(monkeypatch):
    """One text of a dictionary may be that of every row."""
    monkeypatch.setattr("lakebed.format.segment_check.SEGMENT_DECODED_BYTES_MAX", 1_000_000)
    rows = 200
    many = change_block(
        [structs.replace(ENTRIES[0], path=f"{n:06}", content_type="x" * 10_000) for n in range(rows)]
    )
    data = encode_segment({"d": many})
    assert len(data) < 100_000

    with pytest.raises(InvalidInputError, match="take more than 1000000 bytes") as caught:
        check_segment(data)
    assert caught.value.kind is ErrorKind.TOO_LARGE
