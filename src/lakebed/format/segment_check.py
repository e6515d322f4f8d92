"""Segments that somebody else wrote: everything checked that our own writer asserts.

A bulk writer hands in a finished file, and what is wrong with it would be wrong for every
reader from then on. So each row and each statistic is looked at once, and a refusal
names the first row or the field. What only the catalog knows (whose addresses these are,
whose branch the dataset is for) is checked there.
"""

from typing import Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakebed.errors import CorruptError, ErrorKind, InvalidInputError
from lakebed.format.blocks import ENTRY_SCHEMA
from lakebed.format.bloom import build_bloom
from lakebed.format.columns import Mask, column, mask
from lakebed.format.hashing import changes_hash
from lakebed.format.identity import IDENTITY_BYTES, decode_metadata
from lakebed.format.parquet import open_file, read_groups
from lakebed.format.segments import SEGMENT_FILE, Dataset, SegmentFooter, decode_footer
from lakebed.limits import (
    METADATA_BYTES_MAX,
    PATH_BYTES_MAX,
    SEGMENT_BYTES_MAX,
    SEGMENT_DATASETS_MAX,
    SEGMENT_ROWS_MAX,
)

_ZERO: Final = pa.scalar(0, pa.int64())


def check_segment(data: bytes) -> SegmentFooter:
    """Return the footer of a segment that somebody hands in.

    Raises:
        InvalidInputError: a row or field, which the message names, is not what a segment has.
    """
    if len(data) > SEGMENT_BYTES_MAX:
        raise InvalidInputError(
            ErrorKind.TOO_LARGE, f"segment of {len(data)} bytes is larger than {SEGMENT_BYTES_MAX}"
        )
    try:
        return _check(data)
    except CorruptError as error:
        raise InvalidInputError(ErrorKind.INVALID_ARGUMENT, str(error)) from error


def _check(data: bytes) -> SegmentFooter:
    footer = decode_footer(data, size=len(data))
    if len(footer.datasets) > SEGMENT_DATASETS_MAX:
        raise InvalidInputError(
            ErrorKind.TOO_LARGE,
            f"segment of {len(footer.datasets)} datasets has more than {SEGMENT_DATASETS_MAX}",
        )
    file = open_file(SEGMENT_FILE, pa.BufferReader(data))
    for dataset in footer.datasets.values():
        if dataset.rows > SEGMENT_ROWS_MAX:
            raise InvalidInputError(
                ErrorKind.TOO_LARGE,
                f"dataset {dataset.name!r} has {dataset.rows} rows, more than {SEGMENT_ROWS_MAX}",
            )
        block = read_groups(SEGMENT_FILE, file, dataset.groups).slice(dataset.skip, dataset.rows)
        _check_rows(dataset.name, block)
        _check_statistics(dataset, block)
    return footer


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
    _check_metadata(name, column(block, "metadata"))


def _check_metadata(name: str, values: pa.Array) -> None:
    _refuse(
        name,
        f"metadata has more than {METADATA_BYTES_MAX} bytes",
        mask(pc.greater(pc.binary_length(values), METADATA_BYTES_MAX)),
    )
    # A loop over what differs: mostly a handful, and JSON has to be parsed one by one.
    for text in pc.unique(values).to_pylist():
        try:
            decode_metadata(text)
        except msgspec.MsgspecError:
            _refuse(name, "metadata is not a JSON object of texts", mask(pc.equal(values, text)))


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
