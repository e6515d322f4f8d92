"""The one way lakebed writes and reads a table as Parquet.

Plain Parquet that any engine reads, with what we need on top of it: page
checksums, which are verified on every read, a page index, the sort order, and
in the file's key-value metadata what the file is (`lakebed.format`), its version
(`lakebed.version`) and its rows (`lakebed.entries`). Readers refuse a newer version.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakebed.errors import CorruptError, ErrorKind, InvalidInputError

_FORMAT = "lakebed.format"
_VERSION = "lakebed.version"
_ENTRIES = "lakebed.entries"

# Larger batches spend less time between pages; the size of pages does not depend on it.
_WRITE_BATCH_ROWS = 64 * 1024

# What is decoded at a time of a file that may unpack to anything.
_CAUTIOUS_ROWS = 8 * 1024

# pyarrow reports damage by whichever of these its parsers met first.
DAMAGE = (pa.ArrowException, OSError, MemoryError, ValueError, OverflowError, KeyError)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileKind:
    """What is written and how: one value for each stored format.

    Only `dictionary` columns are worth a dictionary; `plain` ones look random, and
    compressing them would take a third of all the time to save a quarter of the size.
    """

    name: str
    version: int
    schema: pa.Schema
    sort_key: str
    """The column that all rows rise by; "" if they do only in parts."""
    dictionary: Sequence[str] = ()
    plain: Sequence[str] = ()
    statistics: Sequence[str] = field(default_factory=tuple)


def encode(kind: FileKind, table: pa.Table) -> bytes:
    """Return the table, whose schema is the kind's, as a Parquet file."""
    sink = pa.BufferOutputStream()
    with open_writer(kind, sink) as writer:
        writer.write_table(table, row_group_size=max(1, table.num_rows))
        writer.add_key_value_metadata(stamp(kind, table.num_rows))
    result: bytes = sink.getvalue().to_pybytes()
    return result


def decode(kind: FileKind, data: bytes) -> pa.Table:
    """Return the table that `encode` was given.

    Raises:
        CorruptError: not bytes that `encode` returned (`UNREADABLE`, `CHECKSUM_MISMATCH`), or those of a
            newer version (`NEWER_VERSION`).
    """
    file = open_file(kind, pa.BufferReader(data))
    table = read_groups(kind, file, range(file.num_row_groups))
    if str(table.num_rows).encode() != facts_of(file).get(_ENTRIES.encode()):
        raise CorruptError(ErrorKind.UNREADABLE, f"{kind.name} file does not hold the rows that it says")
    return table


def open_writer(kind: FileKind, sink: pa.NativeFile) -> pq.ParquetWriter:
    """Return a writer of row groups. What it writes is a file of the kind once `stamp` is added to it."""
    in_order = [pq.SortingColumn(kind.schema.get_field_index(kind.sort_key))] if kind.sort_key else None
    return pq.ParquetWriter(
        sink,
        kind.schema,
        version="2.6",
        compression={n: "none" if n in kind.plain else "zstd" for n in kind.schema.names},
        use_dictionary=list(kind.dictionary),
        write_statistics=list(kind.statistics),
        write_page_index=True,
        write_page_checksum=True,
        write_batch_size=_WRITE_BATCH_ROWS,
        store_schema=False,
        sorting_columns=in_order,
    )


def stamp(kind: FileKind, rows: int) -> dict[str, str]:
    """Return the key-value metadata that says what a file is."""
    return {_FORMAT: kind.name, _VERSION: str(kind.version), _ENTRIES: str(rows)}


def open_file(kind: FileKind, source: Any, *, dictionaries: Sequence[str] = ()) -> pq.ParquetFile:
    """Return a file of the kind, of which only the footer was read; errors as for `decode`.

    Columns in `dictionaries` are read as they are stored: each value once, and an index for each row.
    """
    try:
        # Reading ahead would read what a source of pieces does not hold.
        file = pq.ParquetFile(
            source, page_checksum_verification=True, pre_buffer=False, read_dictionary=list(dictionaries)
        )
    except DAMAGE as error:
        raise CorruptError(ErrorKind.UNREADABLE, f"not a readable {kind.name} file: {error}") from error
    _require_kind(kind, facts_of(file))
    return file


def facts_of(file: pq.ParquetFile) -> Mapping[bytes, bytes]:
    """Return the key-value metadata of a file."""
    facts: Mapping[bytes, bytes] = file.metadata.metadata or {}
    return facts


def read_groups(
    kind: FileKind, file: pq.ParquetFile, groups: Sequence[int], *, bytes_max: int | None = None
) -> pa.Table:
    """Return the rows of these row groups; errors as for `decode`.

    With `bytes_max`, a file from outside is decoded in small batches until they take more than that. A column that the
    file was opened with as one of `dictionaries` is measured before it is decoded. Others may unpack to anything
    within a batch: a caller that does not trust the file confines itself (`env.confinement`).

    Raises:
        InvalidInputError: `TOO_LARGE`: there is more, or an allocation failed.
    """
    try:
        # Threads belong to the caller: it decodes several files at once.
        if bytes_max is None:
            table = file.read_row_groups(list(groups), use_threads=False)
        else:
            table = _read_within(file, groups, bytes_max)
    except InvalidInputError:
        raise
    except DAMAGE as error:
        if bytes_max is not None and isinstance(error, MemoryError):
            raise _too_large(bytes_max) from error
        damaged = "checksum" in str(error).lower()
        raise CorruptError(
            ErrorKind.CHECKSUM_MISMATCH if damaged else ErrorKind.UNREADABLE,
            f"{kind.name} file is damaged: {error}",
        ) from error
    table = table.replace_schema_metadata(None)
    if not table.schema.equals(kind.schema):
        raise CorruptError(
            ErrorKind.UNREADABLE, f"{kind.name} file has other columns than version {kind.version}"
        )
    if any(column.null_count for column in table.columns):
        raise CorruptError(ErrorKind.UNREADABLE, f"{kind.name} file holds nulls")
    return table


def _read_within(file: pq.ParquetFile, groups: Sequence[int], bytes_max: int) -> pa.Table:
    size = sum(file.metadata.row_group(group).total_byte_size for group in groups)
    batches: list[pa.RecordBatch] = []
    schema = pa.schema([_decoded_field(field) for field in file.schema_arrow])
    if size <= bytes_max:
        # What the footer says may be wrong, and a text that stands in the file once may be that of every row.
        size = 0
        for batch in file.iter_batches(_CAUTIOUS_ROWS, row_groups=list(groups), use_threads=False):
            size += sum(map(_decoded_bytes, batch.columns))
            if size > bytes_max:
                break
            columns = [_decoded(column) for column in batch.columns]
            batches.append(pa.record_batch(columns, schema=schema))
    if size > bytes_max:
        raise _too_large(bytes_max)
    return pa.Table.from_batches(batches, schema)


def _decoded_bytes(column: pa.Array) -> int:
    """Return how much memory a column takes when it is decoded."""
    if not isinstance(column, pa.DictionaryArray):
        return int(column.nbytes)
    lengths = pc.binary_length(column.dictionary).take(column.indices)
    return (pc.sum(lengths).as_py() or 0) + int(column.indices.nbytes)


def _decoded(column: pa.Array) -> pa.Array:
    return column.dictionary_decode() if isinstance(column, pa.DictionaryArray) else column


def _decoded_field(field: pa.Field) -> pa.Field:
    return field.with_type(field.type.value_type) if pa.types.is_dictionary(field.type) else field


def _too_large(bytes_max: int) -> InvalidInputError:
    return InvalidInputError(ErrorKind.TOO_LARGE, f"the rows take more than {bytes_max} bytes of memory")


def _require_kind(kind: FileKind, facts: Mapping[bytes, bytes]) -> None:
    if facts.get(_FORMAT.encode()) != kind.name.encode():
        raise CorruptError(ErrorKind.UNREADABLE, f"not a {kind.name} file of lakebed")
    version = facts.get(_VERSION.encode(), b"")
    if not version.isdigit():
        raise CorruptError(ErrorKind.UNREADABLE, f"{kind.name} file without a version")
    if int(version) > kind.version:
        raise CorruptError(
            ErrorKind.NEWER_VERSION,
            f"{kind.name} file was written by a newer lakebed (version {int(version)}, this one reads"
            f" {kind.version}): upgrade it",
        )
