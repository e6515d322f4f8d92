"""Segment files: staged changes of several branches of one repository as one Parquet object.

Plain Parquet with the columns of a change block. A *dataset* is the changes of one branch:
consecutive rows, sorted by key, tombstones among them. Large datasets have row groups of
their own, small ones share one, so that a reader fetches the footer and one range of bytes
and a file of a thousand small datasets has no thousand groups. The key-value metadata adds

    lakebed.datasets   JSON: name, level, first row, rows, min and max key, tombstones, hash of the rows, Bloom filter
    lakebed.checksum   sha256 of that text

The checksum covers the statistics, the hash in them every row, so damage anywhere is found:
wrong places in the footer lead to wrong rows. `tests/golden/segments` holds a file of each
version that must be read for ever.
"""

import hashlib
import io
import struct
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakebed.errors import CorruptError, ErrorKind
from lakebed.format.blocks import CHANGE_SCHEMA
from lakebed.format.bloom import Bloom, bloom_of
from lakebed.format.columns import column, mask, require_rising
from lakebed.format.cut import key_hashes
from lakebed.format.hashing import changes_hash, changes_hashes
from lakebed.format.parquet import FileKind, facts_of, open_file, open_writer, read_groups, stamp
from lakebed.limits import SEGMENT_GROUP_ROWS, SEGMENT_GROUP_ROWS_MIN
from lakebed.model.layers import SegmentLayer

SEGMENT_FILE: Final = FileKind(
    name="segment",
    version=1,
    schema=CHANGE_SCHEMA,
    sort_key="",
    dictionary=("content_type", "metadata"),
    plain=("identity", "checksum", "size"),
    statistics=("key",),
)

_DATASETS: Final = "lakebed.datasets"
_CHECKSUM: Final = "lakebed.checksum"
_TAIL: Final = struct.Struct("<I4s")
_MAGIC: Final = b"PAR1"

FOOTER_TAIL_BYTES: Final = _TAIL.size
"""How much of a file's end tells how long its footer is."""


class _Statistics(msgspec.Struct, frozen=True):
    """What the footer says of a dataset. Fields are added at the end, with a default."""

    name: str
    level: int
    first_row: int
    rows: int
    min_key: str
    max_key: str
    tombstones: int
    hash: str
    bloom: bytes


_decode_statistics: Final = msgspec.json.Decoder(list[_Statistics]).decode


@dataclass(frozen=True, slots=True, kw_only=True)
class Dataset:
    """The changes of one branch, as the footer tells them; `start` and `stop` are the bytes to fetch."""

    name: str
    level: int
    rows: int
    min_key: str
    max_key: str
    tombstones: int
    hash: str
    bloom: Bloom
    start: int
    stop: int
    groups: range
    skip: int
    """Rows of the first group that belong to others."""

    def layer(self, segment_id: str, *, seq: int) -> SegmentLayer:
        """Return the layer that a branch lists for it."""
        return SegmentLayer(
            id=segment_id,
            dataset=self.name,
            seq=seq,
            min_key=self.min_key,
            max_key=self.max_key,
            entries=self.rows - self.tombstones,
            tombstones=self.tombstones,
            bytes=self.stop - self.start,
            level=self.level,
            hash=self.hash,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentFooter:
    """Everything about a segment but its rows."""

    datasets: Mapping[str, Dataset]
    size: int
    tail: bytes


def encode_segment(datasets: Mapping[str, pa.Table], *, level: int = 0) -> bytes:
    """Return change blocks by name, none of them empty, as a segment file."""
    assert datasets, "a segment has at least one dataset"
    sink = pa.BufferOutputStream()
    statistics: list[_Statistics] = []
    first_row = 0
    with open_writer(SEGMENT_FILE, sink) as writer:
        for names in _groups(datasets):
            blocks = [datasets[name] for name in names]
            group = pa.concat_tables(blocks)
            writer.write_table(group, row_group_size=SEGMENT_GROUP_ROWS)
            statistics += _statistics_of(names, [b.num_rows for b in blocks], group, first_row, level)
            first_row += group.num_rows
        text = msgspec.json.encode(statistics)
        writer.add_key_value_metadata(
            {
                **stamp(SEGMENT_FILE, first_row),
                _DATASETS: text.decode(),
                _CHECKSUM: hashlib.sha256(text).hexdigest(),
            }
        )
    result: bytes = sink.getvalue().to_pybytes()
    return result


def footer_bytes(tail: bytes) -> int:
    """Return how many bytes at the end of a file its footer takes; `tail` is the last eight or more of them.

    Raises:
        CorruptError: not the end of a Parquet file.
    """
    if len(tail) < _TAIL.size:
        raise CorruptError(ErrorKind.UNREADABLE, f"segment file of only {len(tail)} bytes")
    length, magic = _TAIL.unpack(tail[-_TAIL.size :])
    if magic != _MAGIC:
        raise CorruptError(ErrorKind.UNREADABLE, "segment file does not end like Parquet")
    return int(length) + _TAIL.size


def decode_footer(tail: bytes, *, size: int) -> SegmentFooter:
    """Return what the footer says; `tail` is the end of a file of `size` bytes, at least `footer_bytes` of it.

    Raises:
        CorruptError: not a segment's footer, damaged, or of a newer version.
    """
    needed = footer_bytes(tail)
    if needed > len(tail):
        raise CorruptError(ErrorKind.UNREADABLE, f"segment footer of {needed} bytes is cut short")
    tail = tail[-needed:]
    file = open_file(SEGMENT_FILE, _Sparse(size, {size - needed: tail}))
    statistics = _open_statistics(file)
    groups = _Groups.of(file)
    expected = 0
    for dataset in statistics:
        if dataset.first_row != expected or dataset.rows < 1 or not 0 <= dataset.tombstones <= dataset.rows:
            raise CorruptError(
                ErrorKind.UNREADABLE, f"segment footer: rows of dataset {dataset.name!r} are out of place"
            )
        expected += dataset.rows
    if expected != groups.rows:
        raise CorruptError(
            ErrorKind.UNREADABLE, f"segment footer: {expected} rows in datasets, {groups.rows} in the file"
        )
    datasets = {s.name: groups.place(s) for s in statistics}
    if len(datasets) != len(statistics) or not datasets:
        raise CorruptError(ErrorKind.UNREADABLE, "segment footer: datasets without a name of their own")
    return SegmentFooter(datasets=datasets, size=size, tail=tail)


def decode_dataset(footer: SegmentFooter, name: str, data: bytes) -> pa.Table:
    """Return the change block of one dataset; `data` is the file's bytes from its `start` to its `stop`.

    Raises:
        CorruptError: there is no such dataset (`FILE_MISSING`), or its rows are not those that the footer tells.
    """
    dataset = footer.datasets.get(name)
    if dataset is None:
        raise CorruptError(ErrorKind.FILE_MISSING, f"segment has no dataset {name!r}")
    pieces = {dataset.start: data, footer.size - len(footer.tail): footer.tail}
    file = open_file(SEGMENT_FILE, _Sparse(footer.size, pieces))
    block = read_groups(SEGMENT_FILE, file, dataset.groups).slice(dataset.skip, dataset.rows)
    require_rising(column(block, "key"), what=f"dataset {name!r} of a segment")
    if changes_hash(block) != dataset.hash:
        raise CorruptError(
            ErrorKind.CHECKSUM_MISMATCH,
            f"dataset {name!r} of a segment holds other rows than the footer says",
        )
    return block


def _groups(datasets: Mapping[str, pa.Table]) -> Iterator[list[str]]:
    """Yield the names of datasets that share row groups: small ones together, each large one with those before it."""
    names: list[str] = []
    rows = 0
    for name, block in datasets.items():
        names.append(name)
        rows += block.num_rows
        if rows >= SEGMENT_GROUP_ROWS_MIN:
            yield names
            names, rows = [], 0
    if names:
        yield names


def _statistics_of(
    names: Sequence[str], counts: Sequence[int], group: pa.Table, first_row: int, level: int
) -> list[_Statistics]:
    """Return the statistics of datasets that lie in `group` one after another, with so many rows each.

    Of all of them at once, because most of them have few rows.
    """
    assert all(counts), "a dataset has at least one change"
    keys = column(group, "key")
    starts = list(accumulate(counts, initial=0))
    assert _rise_apart(keys, starts), "keys rise strictly"
    deleted = np.concatenate([[0], np.cumsum(mask(column(group, "deleted")))])
    key_hashes_of = key_hashes(keys)
    hashes = changes_hashes(group, counts)
    return [
        _Statistics(
            name=name,
            level=level,
            first_row=first_row + start,
            rows=stop - start,
            min_key=keys[start].as_py(),
            max_key=keys[stop - 1].as_py(),
            tombstones=int(deleted[stop] - deleted[start]),
            hash=rows_hash,
            bloom=bloom_of(key_hashes_of[start:stop]).bits,
        )
        for name, (start, stop), rows_hash in zip(names, pairwise(starts), hashes, strict=True)
    ]


def _rise_apart(keys: pa.Array, starts: Sequence[int]) -> bool:
    """Return whether the keys rise strictly but from one dataset to the next."""
    rising = mask(pc.less(keys.slice(0, len(keys) - 1), keys.slice(1))).copy()
    rising[np.array(starts[1:-1], np.int64) - 1] = True
    return bool(rising.all())


def _open_statistics(file: pq.ParquetFile) -> list[_Statistics]:
    facts = facts_of(file)
    text = facts.get(_DATASETS.encode(), b"")
    if hashlib.sha256(text).hexdigest().encode() != facts.get(_CHECKSUM.encode()):
        raise CorruptError(ErrorKind.CHECKSUM_MISMATCH, "segment footer: lakebed.checksum does not fit")
    try:
        return _decode_statistics(text)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise CorruptError(
            ErrorKind.UNREADABLE, f"segment footer: lakebed.datasets does not parse: {error}"
        ) from error


@dataclass(frozen=True, slots=True)
class _Groups:
    """Where the row groups lie: their first rows (and the number of all), and their bytes."""

    first_rows: Sequence[int]
    starts: Sequence[int]
    stops: Sequence[int]

    @classmethod
    def of(cls, file: pq.ParquetFile) -> "_Groups":
        groups = [file.metadata.row_group(i) for i in range(file.num_row_groups)]
        chunks = [[group.column(i) for i in range(group.num_columns)] for group in groups]
        offsets = [[_chunk_start(chunk) for chunk in of_group] for of_group in chunks]
        ends = [
            [at + chunk.total_compressed_size for at, chunk in zip(*pair, strict=True)]
            for pair in zip(offsets, chunks, strict=True)
        ]
        return cls(
            [0, *accumulate(group.num_rows for group in groups)],
            [min(of_group) for of_group in offsets],
            [max(of_group) for of_group in ends],
        )

    @property
    def rows(self) -> int:
        return self.first_rows[-1]

    def place(self, s: _Statistics) -> Dataset:
        first = bisect_right(self.first_rows, s.first_row) - 1
        last = bisect_right(self.first_rows, s.first_row + s.rows - 1) - 1
        return Dataset(
            name=s.name,
            level=s.level,
            rows=s.rows,
            min_key=s.min_key,
            max_key=s.max_key,
            tombstones=s.tombstones,
            hash=s.hash,
            bloom=Bloom(s.bloom),
            start=self.starts[first],
            stop=self.stops[last],
            groups=range(first, last + 1),
            skip=s.first_row - self.first_rows[first],
        )


def _chunk_start(chunk: pq.ColumnChunkMetaData) -> int:
    at: int = chunk.data_page_offset
    return min(at, chunk.dictionary_page_offset) if chunk.has_dictionary_page else at


class _Sparse(io.RawIOBase):
    """A file of which only some pieces are at hand, by where they start.

    The others read as zeros: Parquet's reader asks for the end of a file in one large step, whatever
    the footer takes of it, and whoever took zeros for rows would find that they have another hash.
    """

    def __init__(self, size: int, pieces: Mapping[int, bytes]) -> None:
        self._size = size
        self._pieces = pieces
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        origin = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        self._at = origin + offset
        return self._at

    def read(self, size: int = -1) -> bytes:
        stop = self._size if size < 0 else min(self._size, self._at + size)
        found = bytearray(max(0, stop - self._at))
        for start, piece in self._pieces.items():
            low, high = max(self._at, start), min(stop, start + len(piece))
            if low < high:
                found[low - self._at : high - self._at] = piece[low - start : high - start]
        self._at += len(found)
        return bytes(found)
