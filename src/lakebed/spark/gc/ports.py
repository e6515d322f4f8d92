"""What the job needs of the outside: a server, a store, and an engine for tables that may not fit in memory.

`Tables` is made so that both engines are natural: a table is a handle, operations on handles
are lazy, and what a caller gets back as a value never grows with the data. A step that talks to
the store takes names (prefixes, files) as its input and runs as parallel tasks over them.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, TypeVar

import pyarrow as pa

from lakebed.env.clock import Instant
from lakebed.format.gc import Amount, DataFile, Roots, Share
from lakebed.format.parquet import FileKind
from lakebed.model.gc import MarkKind
from lakebed.model.ids import RepoUid

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedMark:
    """A mark that counts: the server's record names it. Times are the engine's."""

    run: str
    started_at: Instant
    marked_at: Instant
    kind: MarkKind
    optimized_since_clean: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StorePlace:
    """Where a namespace lies, as the server tells it: no secrets."""

    kind: str
    """`s3` or `local`."""
    url: str
    endpoint: str = ""
    region: str = ""
    path_style: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """A run that holds the lease, and what the server says at its beginning."""

    run: str
    token: int
    repository: str
    uid: RepoUid
    namespace: str
    now: Instant
    lease_seconds: float
    grace_seconds: float
    """How long the server keeps what left its place; a scan must be done in half of it."""
    link_seconds: float
    slice_seconds: float
    clock_slack_seconds: float
    marks: tuple[PublishedMark, ...]
    """Newest first."""
    place: StorePlace | None = None


class Server(Protocol):
    """The server's side of a run. Every call but `begin` raises `FencedError` once the lease is another's."""

    async def begin(self, kind: Literal["mark", "sweep"], *, grace_seconds: float) -> Started:
        """Take the lease of the repository.

        Raises:
            ConflictError: another run holds it.
        """
        ...

    async def renew(self, started: Started) -> Instant:
        """Let the lease last longer, and return engine time."""
        ...

    async def prepare_uncommitted(self, started: Started, continuation: str) -> tuple[DataFile, str]:
        """Write the next page of what is uncommitted ("" asks for the first); return it, and what asks for the one
        after it, "" after the last. Only the server knows what its files are called: a page that was asked for
        twice is written twice, and only the one that was returned counts.
        """
        ...

    async def prepare_commits(self, started: Started) -> str:
        """Condemn what expires, write the list of commits, and `roots.json` last; return the key of that."""
        ...

    async def publish(self, started: Started, kind: MarkKind, counts: Mapping[str, int]) -> Instant:
        """Make the mark count; return when it began to."""
        ...

    async def start_sweep(self, started: Started, mark: str) -> None:
        """Dump refs and announce that what a mark lists is about to be deleted. Nothing may be deleted before."""
        ...

    async def withdraw_marks(self, started: Started) -> None:
        """Let none of the marks count that are published now."""
        ...

    async def end(self, started: Started, outcome: str, counts: Mapping[str, int]) -> None:
        """Give the lease back; `counts` is what the run did."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Folder:
    """What lies directly in a folder: names of folders, without slashes, and `OBJECTS_FILE` rows."""

    folders: Sequence[str]
    objects: pa.Table


class Store(Protocol):
    """The namespace. Keys are relative to it. A failed or partial answer is an error, never an answer."""

    async def get(self, key: str) -> bytes:
        """Return an object's bytes, or raise `NotFoundError`."""
        ...

    async def put(self, key: str, data: bytes) -> None:
        """Create or replace an object."""
        ...

    async def mtime(self, key: str) -> Instant:
        """Return when the store says that an object was written, or raise `NotFoundError`."""
        ...

    async def folder(self, prefix: str) -> Folder:
        """Return what lies directly in a folder; `prefix` is "" or ends in a slash."""
        ...

    def list(self, prefix: str) -> AsyncIterator[pa.Table]:
        """Yield everything below a folder, as `OBJECTS_FILE` rows."""
        ...

    async def delete(self, keys: Sequence[str]) -> None:
        """Delete objects; missing ones are no error."""
        ...

    async def copy(self, source: str, target: str) -> None:
        """Copy an object over whatever is there, or raise `NotFoundError`."""
        ...


@dataclass(frozen=True, slots=True)
class Slices:
    """Which addresses lie in slices that are not read yet: `data/<name>/…` with `floor` <= name < `bound`."""

    bound: str
    floor: str


class Tables(Protocol[T]):
    """An engine. Columns are named as in `lakebed.format.gc`; no table holds nulls.

    What a source returns was read when it returns, once and for all: the order of reads is what makes a run safe, so
    no later step, and no lost machine, may lead to its being read again at another time. Any failure raises.
    """

    @property
    def name(self) -> str:
        """What people call the engine."""
        ...

    async def listing(self, prefixes: Sequence[str]) -> T:
        """Return the objects below folders, each a task: address, size, mtime, plain (see `decide`)."""
        ...

    async def read(self, files: Sequence[DataFile], kind: FileKind) -> T:
        """Return the rows of files, all of them or an error."""
        ...

    async def ranges_of(self, metaranges: T) -> T:
        """Return the distinct ranges of metaranges (name, live): name, rows, min_key, and `live` if one of its metaranges is.

        A name of "" is the empty tree, which has no file. Ranges that begin with the same key are
        likely to hold the same addresses, since a commit that changes a row of a range writes all of it anew.
        """
        ...

    async def addresses_of(self, ranges: T) -> T:
        """Return the addresses in ranges (name, rows, min_key), which hold exactly so many rows each.

        Those that spell the namespace out are made relative. An address may come more than once, but not
        as often as there are ranges with it: commits times ranges is more than anyone can hold.
        """
        ...

    def of(self, table: pa.Table) -> T:
        """Return a small table that the caller has."""
        ...

    def union(self, *tables: T) -> T:
        """Return all rows of tables with the same columns."""
        ...

    def pick(self, table: T, **columns: str) -> T:
        """Return some columns under new names: `new="old"`."""
        ...

    def addresses(self, names: T, folder: str) -> T:
        """Return the addresses of range or metarange files by their `name`."""
        ...

    def flagged(self, table: T, column: str) -> T:
        """Return the rows in which a column is true."""
        ...

    def distinct(self, table: T) -> T:
        """Return each row once."""
        ...

    def any_live(self, names: T) -> T:
        """Return each `name` once, `live` if one of its rows is."""
        ...

    def without(self, left: T, right: T, on: str) -> T:
        """Return the rows of `left` whose value of a column is nowhere in `right`."""
        ...

    def at_most(self, table: T, column: str, value: int) -> T:
        """Return the rows in which a number is no greater."""
        ...

    def in_newer_slices(self, table: T, slices: Slices) -> T:
        """Return the rows whose `address` lies in a slice that is not read yet."""
        ...

    def first_marked(self, objects: T, earlier: T, now: Instant) -> T:
        """Return objects as candidates: with `first_marked_at` of the same ADDRESS in `earlier`, or `now`."""
        ...

    def unprotected(self, files: T, roots: Roots) -> T:
        """Return the range and metarange files (address, …) whose nonce or token protects nothing."""
        ...

    async def keep(self, table: T) -> T:
        """Return the same table, computed: for one that several steps use."""
        ...

    async def amount(self, table: T) -> Amount:
        """Return the number of rows, and the sum of `size` (0 without that column)."""
        ...

    async def shares(self, table: T, now: Instant) -> Sequence[Share]:
        """Return the amounts of objects by `decide.prefix_of` and `decide.AGES`."""
        ...

    async def save(
        self, table: T, kind: FileKind, folder: str, *, rows_per_file: int
    ) -> tuple[DataFile, ...]:
        """Store rows as few files, none larger than so many rows, and return their names."""
        ...

    async def sweep(self, chunks: Sequence[DataFile], *, aside: str, rate: float | None) -> Amount:
        """Do `sweep.sweep_chunk` for every chunk, each a task, and return what was deleted."""
        ...
