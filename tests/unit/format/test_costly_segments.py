"""Parquet from outside that costs more than it weighs: refused, within the memory of a small machine.

Files are checked in a helper process, as a server does it; the process tells how much memory it took at most.
"""

import hashlib
import multiprocessing
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.unit.format.test_segments import MAIN

from lakebed.errors import ErrorKind, InvalidInputError
from lakebed.format.blocks import CHANGE_SCHEMA
from lakebed.format.parquet import stamp
from lakebed.format.segment_check import check_file, check_segment
from lakebed.format.segments import SEGMENT_FILE, encode_segment
from lakebed.limits import MIB, SEGMENT_FOOTER_BYTES_MAX, SEGMENT_ROWS_MAX

pytestmark = pytest.mark.xdist_group("costly_segments")


@pytest.fixture(scope="module")
def helper() -> Iterator[ProcessPoolExecutor]:
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        yield pool


def checked(path: str) -> tuple[ErrorKind | None, int]:
    """Check a file; return the kind of the refusal, and how many bytes more the process held at most."""
    Path("/proc/self/clear_refs").write_text("5")  # The peak counts from here.
    before = _peak_bytes()
    try:
        check_file(path)
    except InvalidInputError as error:
        return error.kind, _peak_bytes() - before
    return None, _peak_bytes() - before


def _peak_bytes() -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))


def rows(count: int, **columns: pa.Array) -> pa.Table:
    """Return a change block whose columns may also be of other types."""
    plain = {
        field.name: pa.repeat(pa.scalar("1").cast(field.type), count)
        for field in CHANGE_SCHEMA
        if field.name != "key"
    }
    plain["key"] = pa.array([f"{n:09}" for n in range(count)])
    table = pa.table({name: columns.get(name, plain[name]) for name in CHANGE_SCHEMA.names})
    fields = [pa.field(each.name, each.type, nullable=False) for each in table.schema]
    return table.cast(pa.schema(fields))


def file_of(table: pa.Table, *, more: dict[str, str] | None = None, **options: Any) -> bytes:
    """Return any table as a file that says of itself that it is a segment."""
    count = table.num_rows
    said = {"name": "d", "level": 0, "first_row": 0, "rows": count, "min_key": "", "max_key": ""}
    text = msgspec.json.encode([{**said, "tombstones": 0, "hash": "", "bloom": ""}])
    facts = {"lakebed.datasets": text.decode(), "lakebed.checksum": hashlib.sha256(text).hexdigest()}
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(
        sink, table.schema, compression="zstd", store_schema=False, write_statistics=False, **options
    ) as writer:
        writer.write_table(table, row_group_size=count)
        writer.add_key_value_metadata({**stamp(SEGMENT_FILE, count), **facts, **(more or {})})
    data: bytes = sink.getvalue().to_pybytes()
    return data


def repeated(text: str, count: int) -> pa.Array:
    """Return one text in every row, which is in memory, and in the file, once."""
    return pa.DictionaryArray.from_arrays(pa.array([0] * count, pa.int32()), pa.array([text]))


def test_one_long_value_in_every_row_is_measured_before_it_is_unpacked(
    helper: ProcessPoolExecutor, tmp_path: Path
) -> None:
    file = tmp_path / "segment"
    file.write_bytes(file_of(rows(8192, content_type=repeated("x" * 600_000, 8192))))
    assert file.stat().st_size < 100_000

    kind, took = helper.submit(checked, str(file)).result()

    assert kind is ErrorKind.TOO_LARGE
    assert took < 64 * MIB


@pytest.mark.parametrize("step", ["parquet._decoded_bytes", "segment_check._check_shape"])
def test_an_allocation_that_fails_refuses_the_file(monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    def fails(*_arguments: object, **_options: object) -> None:
        raise pa.lib.ArrowMemoryError("malloc of size 3221225472 failed")

    monkeypatch.setattr(f"lakebed.format.{step}", fails)
    with pytest.raises(InvalidInputError) as caught:
        check_segment(encode_segment({"d": MAIN}))
    assert caught.value.kind is ErrorKind.TOO_LARGE


COSTLY = {
    "rows": lambda: file_of(rows(SEGMENT_ROWS_MAX + 1)),
    "a footer": lambda: file_of(rows(1), more={"x": "x" * (SEGMENT_FOOTER_BYTES_MAX + 1)}),
}


@pytest.mark.parametrize("name", COSTLY)
def test_too_much_of_something_is_refused_by_the_footer(
    helper: ProcessPoolExecutor, tmp_path: Path, name: str
) -> None:
    file = tmp_path / "segment"
    file.write_bytes(COSTLY[name]())
    kind, took = helper.submit(checked, str(file)).result()
    assert kind is ErrorKind.TOO_LARGE
    assert took < 128 * MIB


def test_too_many_row_groups_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lakebed.format.segment_check.SEGMENT_GROUPS_MAX", 0)
    with pytest.raises(InvalidInputError, match="1 row groups has more than 0") as caught:
        check_segment(encode_segment({"d": MAIN}))
    assert caught.value.kind is ErrorKind.TOO_LARGE


OTHERS = {
    "nested": lambda: rows(2, content_type=pa.array([[["a"]], [["b"]]])),
    "a map": lambda: rows(2, metadata=pa.array([[("a", "b")], []], pa.map_(pa.string(), pa.string()))),
    "many columns": lambda: pa.table({f"c{number}": [1] for number in range(5_000)}),
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_columns_are_refused_before_a_row_is_read(name: str) -> None:
    with pytest.raises(InvalidInputError, match="other columns"):
        check_segment(file_of(OTHERS[name]()))


def test_a_file_for_many_branches_is_refused_before_its_rows_are_read(tmp_path: Path) -> None:
    file = tmp_path / "segment"
    file.write_bytes(encode_segment({f"d{number}": MAIN for number in range(2)}))
    with pytest.raises(InvalidInputError, match="2 datasets, and a branch takes one"):
        check_file(str(file))
