"""`References`: every address that a repository names, beside what its storage has, joined without holding either.

Both sides grow with the number of objects. They are spread over files by a hash of
the address, so that equal addresses meet in one file, and one file at a time is in
memory: a 64th of everything. All of it works on whole columns. Blocking: it is called
through `Workers`.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, Self

import polars as pl
import pyarrow as pa

from lakebed.model.entries import EXTERNAL_MARK
from lakebed.objects.port import ObjectInfo

_BUCKETS: Final = 64

_NAMED: Final = pa.schema(
    [("address", pa.string()), ("size", pa.int64()), ("checksum", pa.string()), ("where", pa.string())]
)
_THERE: Final = pa.schema([("address", pa.string()), ("found", pa.int64()), ("mtime", pa.int64())])


class References:
    """Addresses that are named, and objects that are there, in a folder of their own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._writers: dict[tuple[str, int], pa.ipc.RecordBatchStreamWriter] = {}
        self._folders: set[str] = set()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._finish()

    def name(self, entries: pa.Table, where: str) -> int:
        """Add the objects of an entry block, and return how many there are."""
        frame = pl.DataFrame(pl.from_arrow(entries.select(["key", "address", "size", "checksum"]))).select(
            "address", "size", "checksum", pl.format("{}, path {}", pl.lit(where), "key").alias("where")
        )
        inside = frame.filter(~is_external(pl.col("address")))
        self._folders.update(inside["address"].str.extract("^(.*/)", 1).fill_null("").unique().to_list())
        self._spread("named", frame, _NAMED)
        return frame.height

    def have(self, objects: Sequence[ObjectInfo]) -> None:
        """Add objects as a listing tells them."""
        frame = pl.DataFrame(
            {
                "address": [info.key for info in objects],
                "found": [info.size_bytes for info in objects],
                "mtime": [info.mtime for info in objects],
            },
            schema={"address": pl.String, "found": pl.Int64, "mtime": pl.Int64},
        )
        self._spread("there", frame, _THERE)

    @property
    def folders(self) -> list[str]:
        """The folders of the namespace that the named objects lie in: what has to be listed."""
        return sorted(self._folders)

    def joined(self) -> Iterator[pl.DataFrame]:
        """Yield what is named, each address, size and checksum once, with the size `found`: null if it is not there."""
        self._finish()
        for bucket in range(_BUCKETS):
            named = self._read("named", bucket, _NAMED)
            if named.is_empty():
                continue
            distinct = named.unique(["address", "size", "checksum"], keep="first", maintain_order=True)
            yield distinct.join(
                self._read("there", bucket, _THERE).unique("address"),
                on="address",
                how="left",
                maintain_order="left",
            )

    def unnamed(self) -> Iterator[pl.DataFrame]:
        """Yield the objects that are there and not named: address, `found` (the size) and mtime."""
        self._finish()
        for bucket in range(_BUCKETS):
            there = self._read("there", bucket, _THERE).unique("address")
            left = there.join(self._read("named", bucket, _NAMED), on="address", how="anti")
            if not left.is_empty():
                yield left

    def _spread(self, side: str, frame: pl.DataFrame, schema: pa.Schema) -> None:
        bucket = (pl.col("address").hash(seed=0) % _BUCKETS).alias("bucket")
        parts = frame.with_columns(bucket).partition_by("bucket", as_dict=True, include_key=False)
        for (number,), part in parts.items():
            self._writer(side, number, schema).write_table(part.to_arrow().cast(schema))

    def _writer(self, side: str, bucket: int, schema: pa.Schema) -> pa.ipc.RecordBatchStreamWriter:
        writer = self._writers.get((side, bucket))
        if writer is None:
            writer = pa.ipc.new_stream(str(self._file(side, bucket)), schema)
            self._writers[side, bucket] = writer
        return writer

    def _read(self, side: str, bucket: int, schema: pa.Schema) -> pl.DataFrame:
        file = self._file(side, bucket)
        if not file.exists():
            return pl.DataFrame(pl.from_arrow(schema.empty_table()))
        with pa.OSFile(str(file)) as source, pa.ipc.open_stream(source) as stream:
            return pl.DataFrame(pl.from_arrow(stream.read_all()))

    def _file(self, side: str, bucket: int) -> Path:
        return self._folder / f"{side}-{bucket}.arrows"

    def _finish(self) -> None:
        for writer in self._writers.values():
            writer.close()
        self._writers = {}


def is_external(address: pl.Expr) -> pl.Expr:
    """Return whether an address lies outside the namespace, as `Entry.is_external` does."""
    return address.str.contains(EXTERNAL_MARK, literal=True)
