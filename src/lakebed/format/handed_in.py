"""Segments that bulk writers make: a table of objects, however sorted, as a file that a branch takes in one step.

    path          text          or `key`
    address       text          where the bytes lie: as it was given out, or a full URI outside every repository
    checksum      text
    size          integer       bytes
    mtime         timestamp, or integer: microseconds
    content_type  text          may be missing
    metadata      text (JSON), or map of texts; may be missing
    deleted       truth         may be missing; of a true row only the path counts

What may be missing may also be null. `docs/formats.md` says what the file is.
"""

from typing import Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakebed.errors import ErrorKind, InvalidInputError
from lakebed.format.blocks import CHANGE_SCHEMA
from lakebed.format.columns import column, mask
from lakebed.format.identity import decode_metadata, encode_metadata, identity_column
from lakebed.format.segments import encode_segment

DATASET: Final = "changes"
"""What the one dataset is called until a branch takes it."""

_NONE: Final = {"content_type": "", "metadata": "", "deleted": False}


def segment_of(objects: pa.Table) -> bytes:
    """Return a table of objects and deletions as a segment.

    Raises:
        InvalidInputError: a column is missing or of another type, or a path is there twice.
    """
    return encode_segment({DATASET: changes_of(objects)})


def changes_of(objects: pa.Table) -> pa.Table:
    """Return a table of objects and deletions as a change block; errors as for `segment_of`."""
    if not objects.num_rows:
        raise InvalidInputError(ErrorKind.INVALID_ARGUMENT, "a segment needs at least one row")
    deleted = pc.fill_null(_taken(objects, "deleted"), False)  # noqa: FBT003  Arrow's own signature
    columns = {"key": _column(objects, "key", deleted)}
    for field in CHANGE_SCHEMA:
        if field.name not in ("key", "identity", "deleted"):
            columns[field.name] = _column(objects, field.name, deleted)
    columns |= {"identity": pa.nulls(objects.num_rows, pa.binary()).fill_null(b""), "deleted": deleted}
    block = pa.table([columns[name] for name in CHANGE_SCHEMA.names], schema=CHANGE_SCHEMA)
    block = block.take(pc.sort_indices(block.column("key"))).combine_chunks()
    _require_once(column(block, "key"))
    return block.set_column(
        CHANGE_SCHEMA.get_field_index("identity"), CHANGE_SCHEMA.field("identity"), identity_column(block)
    )


def _column(objects: pa.Table, name: str, deleted: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a column as a change block has it: empty where an object was deleted."""
    wanted = CHANGE_SCHEMA.field(name).type
    values = _taken(objects, name)
    if name == "mtime" and pa.types.is_timestamp(values.type):
        values = values.cast(pa.timestamp("us", values.type.tz), safe=False).cast(pa.int64())
    if name == "metadata":
        values = _metadata(values)
    try:
        values = values.cast(wanted)
    except pa.ArrowException as error:
        raise InvalidInputError(ErrorKind.INVALID_ARGUMENT, f"column {name!r}: {error}") from error
    if name != "key":
        empty = pa.scalar("" if pa.types.is_string(wanted) else 0, wanted)
        values = pc.if_else(deleted, empty, values)
    if values.null_count:
        row = int(np.argmax(mask(pc.is_null(values))))
        raise InvalidInputError(ErrorKind.INVALID_ARGUMENT, f"column {name!r}, row {row}: nothing is there")
    return values


def _taken(objects: pa.Table, name: str) -> pa.ChunkedArray:
    """Return a column as the caller has it, or one of what it stands for if it is missing."""
    given = "path" if name == "key" and "path" in objects.column_names else name
    if given in objects.column_names:
        values = objects.column(given)
        return (
            pc.fill_null(values, _NONE[name])
            if name in _NONE and not pa.types.is_map(values.type)
            else values
        )
    if name not in _NONE:
        raise InvalidInputError(
            ErrorKind.INVALID_ARGUMENT, f"column {'path' if name == 'key' else name!r} is missing"
        )
    return pa.chunked_array([pa.array([_NONE[name]] * objects.num_rows, CHANGE_SCHEMA.field(name).type)])


def _metadata(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return user metadata as the one text that stands for it; a loop over what differs, mostly a handful."""
    if pa.types.is_map(values.type):
        texts = [encode_metadata(dict(pairs or ())) for pairs in values.to_pylist()]
        return pa.chunked_array([pa.array(texts, pa.string())])
    coded = values.cast(pa.string()).combine_chunks().dictionary_encode()
    texts = [_canonical(text) for text in coded.dictionary.to_pylist()]
    return pa.chunked_array([pa.array(texts, pa.string()).take(coded.indices)])


def _canonical(text: str) -> str:
    try:
        return encode_metadata(decode_metadata(text))
    except msgspec.MsgspecError as error:
        raise InvalidInputError(
            ErrorKind.INVALID_ARGUMENT, f"column 'metadata': {text!r}: {error}"
        ) from error


def _require_once(keys: pa.Array) -> None:
    twice = mask(pc.equal(keys.slice(0, len(keys) - 1), keys.slice(1)))
    if twice.any():
        path = keys[int(np.argmax(twice))].as_py()
        raise InvalidInputError(ErrorKind.INVALID_ARGUMENT, f"path {path!r} is there twice")
