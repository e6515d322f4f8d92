"""Segments that somebody else wrote: everything checked that our own writer asserts.

A bulk writer hands in a finished file, and what is wrong with it would be wrong for every
reader from then on. So each row and each statistic is looked at once, and a refusal
names the first row or the field. What only the catalog knows (whose addresses these are,
whose branch the dataset is for) is checked there.

A few kilobytes of Parquet may unpack to gigabytes. What costs more comes later:

    1. the footer's length, the columns, the numbers of rows, row groups and datasets
    2. the lengths of values that stand in the file once and in many rows (dictionaries)
    3. the rows, in batches

A footer may lie, and pages may unpack to anything: `check_file` confines its process.
"""

from pathlib import Path
from typing import Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakebed.env.confinement import confined
from lakebed.errors import CorruptError, ErrorKind, InvalidInputError
from lakebed.format.blocks import CHANGE_SCHEMA, ENTRY_SCHEMA
from lakebed.format.bloom import build_bloom
from lakebed.format.columns import Mask, column, mask
from lakebed.format.hashing import changes_hash
from lakebed.format.identity import IDENTITY_BYTES, decode_metadata, encode_metadata, identity_column
from lakebed.format.parquet import DAMAGE, open_file, read_groups
from lakebed.format.segments import (
    FOOTER_TAIL_BYTES,
    SEGMENT_FILE,
    Dataset,
    SegmentFooter,
    decode_footer,
    footer_bytes,
)
from lakebed.limits import (
    METADATA_BYTES_MAX,
    PATH_BYTES_MAX,
    SEGMENT_BYTES_MAX,
    SEGMENT_CHECK_CPU_SECONDS,
    SEGMENT_CHECK_MEMORY_BYTES,
    SEGMENT_DATASETS_MAX,
    SEGMENT_DECODED_BYTES_MAX,
    SEGMENT_FOOTER_BYTES_MAX,
    SEGMENT_GROUPS_MAX,
    SEGMENT_ROWS_MAX,
)

_ZERO: Final = pa.scalar(0, pa.int64())
# As the API has it for one object.
_CHECKSUM: Final = r"^[!#-~]{1,256}$"


def check_segment(data: bytes | pa.Buffer, *, datasets_max: int = SEGMENT_DATASETS_MAX) -> SegmentFooter:
    """Return the footer of a segment that somebody hands in.

    Raises:
        InvalidInputError: a row or field, which the message names, is not what a segment has.
    """
    if len(data) > SEGMENT_BYTES_MAX:
        raise InvalidInputError(
            ErrorKind.TOO_LARGE, f"segment of {len(data)} bytes is larger than {SEGMENT_BYTES_MAX}"
        )
    try:
        return _check(data, datasets_max=datasets_max)
    except CorruptError as error:
        raise InvalidInputError(ErrorKind.INVALID_ARGUMENT, str(error)) from error
    except InvalidInputError:
        raise
    except MemoryError as error:
        raise check_failed() from error
    except DAMAGE as error:
        raise InvalidInputError(
            ErrorKind.INVALID_ARGUMENT, f"not a readable segment file: {error}"
        ) from error


def check_file(path: str) -> None:
    """Check a file as `check_segment` does, and that it is for one branch. By its name: for a helper process."""
    with confined(memory_bytes=SEGMENT_CHECK_MEMORY_BYTES, cpu_seconds=SEGMENT_CHECK_CPU_SECONDS):
        check_segment(_mapped(path), datasets_max=1)


def check_failed() -> InvalidInputError:
    """Return the error for a file that cannot be checked within the bounds of `check_file`."""
    return InvalidInputError(
        ErrorKind.TOO_LARGE,
        f"checking the segment takes more than {SEGMENT_CHECK_MEMORY_BYTES} bytes of memory or"
        f" {SEGMENT_CHECK_CPU_SECONDS:.0f} s of processor time: hand in less at a time",
    )


def read_checked(path: str) -> pa.Table:
    """Return the changes in a file that `check_file` has found nothing wrong with."""
    data = _mapped(path)
    (dataset,) = _footer(data).datasets.values()
    return _read(open_file(SEGMENT_FILE, pa.BufferReader(data)), dataset)


def _mapped(path: str) -> pa.Buffer:
    """Return a file's bytes, which the system reads as they are looked at."""
    if not Path(path).stat().st_size:
        return pa.py_buffer(b"")  # Nothing is nothing to map.
    with pa.memory_map(path) as file:
        return file.read_buffer()


def _check(data: bytes | pa.Buffer, *, datasets_max: int) -> SegmentFooter:
    _check_footer_size(data)
    file = open_file(SEGMENT_FILE, pa.BufferReader(data))
    _check_shape(file, rows_max=datasets_max * SEGMENT_ROWS_MAX)
    footer = _footer(data)
    count = len(footer.datasets)
    if count > datasets_max == 1:
        raise InvalidInputError(
            ErrorKind.INVALID_ARGUMENT, f"segment footer: {count} datasets, and a branch takes one"
        )
    if count > datasets_max:
        raise InvalidInputError(
            ErrorKind.TOO_LARGE, f"segment of {count} datasets has more than {datasets_max}"
        )
    file = open_file(SEGMENT_FILE, pa.BufferReader(data), dictionaries=_dictionaries(file))
    for dataset in footer.datasets.values():
        if dataset.rows > SEGMENT_ROWS_MAX:
            raise InvalidInputError(
                ErrorKind.TOO_LARGE,
                f"dataset {dataset.name!r} has {dataset.rows} rows, more than {SEGMENT_ROWS_MAX}",
            )
        block = _read(file, dataset)
        _check_texts(dataset.name, block)
        _check_rows(dataset.name, block)
        _check_statistics(dataset, block)
    return footer


def _check_footer_size(data: bytes | pa.Buffer) -> None:
    size = footer_bytes(bytes(data[max(0, len(data) - FOOTER_TAIL_BYTES) : len(data)]))
    if size > SEGMENT_FOOTER_BYTES_MAX:
        raise InvalidInputError(
            ErrorKind.TOO_LARGE, f"segment footer of {size} bytes is larger than {SEGMENT_FOOTER_BYTES_MAX}"
        )


def _check_shape(file: pq.ParquetFile, *, rows_max: int) -> None:
    """Refuse other columns, and more rows or row groups than a segment has, by the footer alone."""
    if not file.schema_arrow.remove_metadata().equals(CHANGE_SCHEMA):
        raise InvalidInputError(
            ErrorKind.INVALID_ARGUMENT,
            f"segment file has other columns than version {SEGMENT_FILE.version}",
        )
    metadata = file.metadata
    for noun, count, most in (
        ("rows", metadata.num_rows, rows_max),
        ("row groups", metadata.num_row_groups, SEGMENT_GROUPS_MAX),
    ):
        if count > most:
            raise InvalidInputError(ErrorKind.TOO_LARGE, f"segment of {count} {noun} has more than {most}")
    if any(
        metadata.row_group(group).num_columns != len(CHANGE_SCHEMA)
        for group in range(metadata.num_row_groups)
    ):
        raise InvalidInputError(ErrorKind.INVALID_ARGUMENT, "segment file has a row group without a column")


def _dictionaries(file: pq.ParquetFile) -> list[str]:
    """Return the columns of texts or bytes that the footer says have a dictionary somewhere."""
    groups = [file.metadata.row_group(index) for index in range(file.num_row_groups)]
    return [
        field.name
        for index, field in enumerate(CHANGE_SCHEMA)
        if pa.types.is_string(field.type) or pa.types.is_binary(field.type)
        if any("DICTIONARY" in name for group in groups for name in group.column(index).encodings)
    ]


def _footer(data: bytes | pa.Buffer) -> SegmentFooter:
    size = len(data)
    needed = footer_bytes(bytes(data[max(0, size - FOOTER_TAIL_BYTES) : size]))
    return decode_footer(bytes(data[max(0, size - needed) : size]), size=size)


def _read(file: pq.ParquetFile, dataset: Dataset) -> pa.Table:
    rows = read_groups(SEGMENT_FILE, file, dataset.groups, bytes_max=SEGMENT_DECODED_BYTES_MAX)
    return rows.slice(dataset.skip, dataset.rows)


def _check_texts(name: str, block: pa.Table) -> None:
    """Refuse what is not UTF-8: Parquet's reader takes any bytes for a text."""
    for field in block.schema:
        if pa.types.is_string(field.type):
            try:
                column(block, field.name).validate(full=True)
            except pa.ArrowInvalid as error:
                row = str(error).rpartition(" ")[2]
                raise InvalidInputError(
                    ErrorKind.INVALID_ARGUMENT, f"dataset {name!r}, row {row}: {field.name} is not UTF-8"
                ) from error


def _check_rows(name: str, block: pa.Table) -> None:
    keys = column(block, "key")
    before, after = keys.slice(0, len(keys) - 1), keys.slice(1)
    _refuse(name, "key is not greater than the one before", _later(mask(pc.less_equal(after, before))))
    sizes = mask(pc.greater(pc.binary_length(keys), PATH_BYTES_MAX)) | mask(
        pc.equal(pc.binary_length(keys), 0)
    )
    _refuse(name, f"key does not have 1 to {PATH_BYTES_MAX} bytes", sizes)
    deleted = mask(column(block, "deleted"))
    for field in ENTRY_SCHEMA:
        if field.name != "key":
            values = column(block, field.name)
            filled = (
                values if pa.types.is_int64(field.type) else pc.cast(pc.binary_length(values), pa.int64())
            )
            _refuse(
                name, f"{field.name} of a tombstone is not empty", deleted & mask(pc.not_equal(filled, _ZERO))
            )
    _refuse(name, "size is negative", mask(pc.less(column(block, "size"), _ZERO)))
    _refuse(
        name, "address is empty", ~deleted & mask(pc.equal(pc.binary_length(column(block, "address")), 0))
    )
    lengths = pc.binary_length(column(block, "identity"))
    _refuse(
        name,
        f"identity does not have {IDENTITY_BYTES} bytes",
        ~deleted & mask(pc.not_equal(lengths, IDENTITY_BYTES)),
    )
    checksums = mask(pc.match_substring_regex(column(block, "checksum"), _CHECKSUM))
    _refuse(name, "checksum is not 1 to 256 printable characters without quotes", ~deleted & ~checksums)
    _check_metadata(name, column(block, "metadata"))
    _refuse(
        name,
        "identity is not that of size, checksum, content_type and metadata",
        mask(pc.not_equal(column(block, "identity"), identity_column(block))),
    )


def _check_metadata(name: str, values: pa.Array) -> None:
    _refuse(
        name,
        f"metadata has more than {METADATA_BYTES_MAX} bytes",
        mask(pc.greater(pc.binary_length(values), METADATA_BYTES_MAX)),
    )
    # A loop over what differs: mostly a handful, and JSON has to be parsed one by one.
    for text in pc.unique(values).to_pylist():
        try:
            canonical = encode_metadata(decode_metadata(text)) == text
        except msgspec.MsgspecError:
            _refuse(name, "metadata is not a JSON object of texts", mask(pc.equal(values, text)))
        else:
            if not canonical:
                why = "metadata is not written as it is stored: keys sorted, no spaces, nothing for none"
                _refuse(name, why, mask(pc.equal(values, text)))


def _check_statistics(dataset: Dataset, block: pa.Table) -> None:
    keys = column(block, "key")
    facts = {
        "level": (dataset.level, 0),
        "min_key": (dataset.min_key, keys[0].as_py()),
        "max_key": (dataset.max_key, keys[-1].as_py()),
        "tombstones": (dataset.tombstones, column(block, "deleted").true_count),
        "hash": (dataset.hash, changes_hash(block)),
        "bloom": (dataset.bloom, build_bloom(keys)),
    }
    for field, (said, found) in facts.items():
        if said != found:
            raise InvalidInputError(
                ErrorKind.INVALID_ARGUMENT, f"dataset {dataset.name!r}: {field} does not fit the rows"
            )


def _later(pairs: Mask) -> Mask:
    """Return what is known of each row but the first as a mask of all rows."""
    return np.concatenate([np.zeros(1, np.bool_), pairs])


def _refuse(name: str, why: str, rows: Mask) -> None:
    if rows.any():
        raise InvalidInputError(
            ErrorKind.INVALID_ARGUMENT, f"dataset {name!r}, row {int(np.argmax(rows))}: {why}"
        )
