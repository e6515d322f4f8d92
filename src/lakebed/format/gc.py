"""Files of garbage collection, all under `_lakebed/gc/` of the repository's namespace.

    <run>/uncommitted/<n>-<try>.parquet   addresses that something uncommitted may refer to; by the server, pages from 0
    <run>/commits/<try>/<n>.parquet       every commit, and whether its objects and files are roots; by the server
    <run>/commits/<try>/roots.json        what else protects ranges and metaranges, and the list of commit files; by
                                          the server
    <run>/state/<set>/<n>.parquet   what the next run of the job starts from, and
    <run>/state.json                the list of those files: a run without it never finished
    <run>/marked/<n>.parquet        what a sweep of this mark deletes, in chunks
    <run>/deleted/<n>.parquet       a chunk that was deleted, under the name that it has in `marked`
    <run>/sweep-started             a sweep of this mark may be deleting; by the server
    <run>/summary.json              the report, for people and programs
    quarantine/<run>/<address>      objects put aside, and quarantine/<run>.json, which says until when

What the server writes carries the name of the try, and its reply says where it lies: a try that was given up may
still be writing, and must not replace what the next one has told.

Addresses are relative to the namespace, times are in microseconds. A table is one of the
`FileKind`s below and carries its version; a document is `{"lakebed", "version", "sha256",
"body"}`, where the sum covers the body as it is spelled. `summary.json` is read by people: it
has neither. Fields are added at the end, with a default. `tests/golden/gc` holds a file of each
version that must be read for ever.
"""

import hashlib
from enum import StrEnum
from typing import Any, Final, Generic, TypeVar

import msgspec
import pyarrow as pa

from lakebed.env.clock import Instant
from lakebed.errors import CorruptError, ErrorKind
from lakebed.format.parquet import FileKind, decode, encode
from lakebed.model.gc import MarkKind
from lakebed.model.ids import RepoUid

S = TypeVar("S")

GC_FOLDER: Final = "_lakebed/gc/"
QUARANTINE_FOLDER: Final = f"{GC_FOLDER}quarantine/"

_VERSION: Final = 1


def _columns(**types: pa.DataType) -> pa.Schema:
    return pa.schema([pa.field(name, kind, nullable=False) for name, kind in types.items()])


COMMITS_FILE: Final = FileKind(
    name="gc-commits",
    version=_VERSION,
    schema=_columns(commit_id=pa.string(), metarange_id=pa.string(), live=pa.bool_(), reachable=pa.bool_()),
    sort_key="",
)
"""Every commit record. `live`: its objects are roots; `reachable`: its metarange and ranges are."""

UNCOMMITTED_FILE: Final = FileKind(
    name="gc-uncommitted",
    version=_VERSION,
    schema=_columns(address=pa.string(), creation_date=pa.int64(), source=pa.string()),
    sort_key="",
    dictionary=("source",),
)
"""`creation_date` is in seconds, `source` one of `UncommittedSource`; an address may come more than once."""

OBJECTS_FILE: Final = FileKind(
    name="gc-objects",
    version=_VERSION,
    schema=_columns(address=pa.string(), size=pa.int64(), mtime=pa.int64()),
    sort_key="",
)
"""Objects as the store lists them; `mtime` is the store's."""

CANDIDATES_FILE: Final = FileKind(
    name="gc-candidates",
    version=_VERSION,
    schema=_columns(address=pa.string(), size=pa.int64(), mtime=pa.int64(), first_marked_at=pa.int64()),
    sort_key="",
)
"""Objects that nothing refers to; `first_marked_at` is when the first mark that found them had read everything."""

NAMES_FILE: Final = FileKind(
    name="gc-names", version=_VERSION, schema=_columns(name=pa.string()), sort_key=""
)
"""Ids of commits, names of ranges, or addresses: whatever a run only has to recognise."""


class UncommittedSource(StrEnum):
    """Where something uncommitted was found that refers to an address."""

    ROW = "row"
    SEGMENT = "segment"
    RETIRED = "retired"
    COMPACTED = "compacted"
    STASH = "stash"
    LINK = "link"
    COPY = "copy"
    UPLOAD = "upload"


ANY_ROWS: Final = -1


class DataFile(msgspec.Struct, frozen=True):
    """One Parquet file, by its key from the namespace's root."""

    key: str
    rows: int
    """`ANY_ROWS`: as many as it says itself."""


class Attempts(msgspec.Struct, frozen=True):
    """What compaction may still install on one live branch.

    Files named by the incarnation and a token are protected while that token is held, or above `last_token`.
    """

    incarnation: str
    last_token: int
    held: tuple[int, ...] = ()


class Roots(msgspec.Struct, frozen=True, kw_only=True):
    """`roots.json`: what protects ranges and metaranges beside commits, and which files list the commits."""

    uid: RepoUid
    commits: tuple[DataFile, ...]
    nonces: tuple[str, ...] = ()
    """Of pending operations."""
    attempts: tuple[Attempts, ...] = ()
    trees: tuple[str, ...] = ()
    """Metaranges that are no commit's: compacted and retired trees, bases of stashes."""


class Amount(msgspec.Struct, frozen=True):
    """So many objects, with so many bytes."""

    objects: int = 0
    bytes: int = 0

    def __add__(self, other: "Amount") -> "Amount":
        return Amount(self.objects + other.objects, self.bytes + other.bytes)

    def __sub__(self, other: "Amount") -> "Amount":
        return Amount(self.objects - other.objects, self.bytes - other.bytes)


class State(msgspec.Struct, frozen=True, kw_only=True):
    """`state.json`: what the next run starts from. Only a published mark's counts."""

    uid: RepoUid
    run: str
    kind: MarkKind
    optimized_since_clean: int
    started_at: Instant
    scanned_at: Instant
    bound: str
    """Slices that sort before this name were too new to be read."""
    floor: str
    """Names before this one are no slices of ours: they would be years ahead."""
    objects: int
    bytes: int
    """Users' objects that are known to be there: what was listed since the last clean run, that one included, less what
    was deleted."""
    candidates: tuple[DataFile, ...]
    metadata: tuple[DataFile, ...]
    """Candidates among ranges and metaranges, which only clean runs look at."""
    watched: tuple[DataFile, ...]
    """Listed and not committed, but staged, linked or too young to be candidates."""
    ahead: tuple[DataFile, ...]
    """Committed addresses in slices not yet read."""
    live: tuple[DataFile, ...]
    """Ids of live commits."""
    ranges: tuple[DataFile, ...]
    """Names of ranges whose addresses are accounted for."""
    trees: Amount | None = None
    """Ranges and metaranges that are known to be there; None in files of before they were counted."""


class Share(msgspec.Struct, frozen=True):
    """What of an amount lies under one prefix and has one age."""

    prefix: str
    age: str
    objects: int
    bytes: int


class Phase(msgspec.Struct, frozen=True):
    """How long a step took, and how many things it went through."""

    name: str
    seconds: float
    count: int


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """`summary.json`: the report of a mark, and of what was swept by it so far."""

    run: str
    repository: str
    uid: str
    kind: MarkKind
    reason: str
    """Why the run was of this kind."""
    engine: str
    started_at: Instant
    marked_at: Instant
    min_age_seconds: float
    grace_seconds: float
    listed: Amount
    """Objects that this run listed."""
    namespace: Amount
    """Users' objects that are known to be there."""
    live_commits: int
    commits: int
    ranges: int
    uncommitted: int
    candidates: Amount
    """What nothing refers to, confirmed or not."""
    marked: Amount
    """What a second mark confirmed: what a sweep deletes."""
    marked_objects: Amount
    """Of that, what users stored; the rest is ranges and metaranges."""
    by_prefix_and_age: tuple[Share, ...]
    """Of what is marked."""
    skipped_slices: int
    unknown_folders: int
    marked_files: tuple[DataFile, ...]
    phases: tuple[Phase, ...] = ()
    warnings: tuple[str, ...] = ()
    deleted: Amount = Amount()
    quarantined: Amount = Amount()
    swept_at: Instant | None = None
    """When the sweep had gone through everything that is marked; None before."""
    version: int = _VERSION
    trees: Amount | None = None
    """Ranges and metaranges that are known to be there; None in files of before they were counted."""
    odd_names: int = 0
    """Objects that were listed and left alone because of their names."""


class Quarantined(msgspec.Struct, frozen=True, kw_only=True):
    """`quarantine/<run>.json`: what a sweep put aside."""

    uid: RepoUid
    run: str
    since: Instant
    until: Instant
    """When a later run may delete it."""


class SweepStarted(msgspec.Struct, frozen=True, kw_only=True):
    """`sweep-started`: the first sweep that may delete what a mark lists."""

    uid: RepoUid
    mark: str
    run: str
    at: Instant


class _Sealed(msgspec.Struct):
    lakebed: str
    version: int
    sha256: str
    body: msgspec.Raw


class Document(Generic[S]):
    """Seals and opens one kind of document."""

    def __init__(self, noun: str, body: type[S]) -> None:
        self._noun = noun
        self._decode: Any = msgspec.json.Decoder(body).decode

    def seal(self, body: S) -> bytes:
        """Return `body` as a file."""
        text = msgspec.json.encode(body)
        return msgspec.json.encode(
            _Sealed(self._noun, _VERSION, hashlib.sha256(text).hexdigest(), msgspec.Raw(text))
        )

    def open(self, data: bytes) -> S:
        """Return what `seal` was given.

        Raises:
            CorruptError: not bytes that it returned (`UNREADABLE`, `CHECKSUM_MISMATCH`), or those of a newer version
                (`NEWER_VERSION`).
        """
        try:
            sealed = msgspec.json.decode(data, type=_Sealed)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise self._unreadable(error) from error
        if sealed.lakebed != self._noun:
            raise CorruptError(ErrorKind.UNREADABLE, f"a {sealed.lakebed!r} file stands in for {self._noun}")
        if sealed.version > _VERSION:
            raise CorruptError(
                ErrorKind.NEWER_VERSION,
                f"{self._noun} was written by a newer lakebed (version {sealed.version}, this one reads"
                f" {_VERSION}): upgrade it",
            )
        text = bytes(sealed.body)
        if hashlib.sha256(text).hexdigest() != sealed.sha256:
            raise CorruptError(ErrorKind.CHECKSUM_MISMATCH, f"{self._noun} is damaged")
        try:
            body: S = self._decode(text)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise self._unreadable(error) from error
        return body

    def _unreadable(self, error: Exception) -> CorruptError:
        return CorruptError(ErrorKind.UNREADABLE, f"{self._noun} does not parse: {error}")


ROOTS: Final = Document("gc-roots", Roots)
STATE: Final = Document("gc-state", State)
QUARANTINED: Final = Document("gc-quarantine", Quarantined)
SWEEP_STARTED: Final = Document("gc-sweep-started", SweepStarted)


def encode_summary(summary: Summary) -> bytes:
    """Return a report as `summary.json`."""
    return msgspec.json.format(msgspec.json.encode(summary), indent=2)


def decode_summary(data: bytes) -> Summary:
    """Return what `encode_summary` was given, or raise `CorruptError`."""
    try:
        return msgspec.json.decode(data, type=Summary)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise CorruptError(ErrorKind.UNREADABLE, f"summary.json does not parse: {error}") from error


def encode_table(kind: FileKind, table: pa.Table) -> bytes:
    """Return a table with the kind's columns as a Parquet file."""
    return encode(kind, table.cast(kind.schema))


def decode_table(kind: FileKind, data: bytes, *, rows: int = ANY_ROWS) -> pa.Table:
    """Return what `encode_table` was given.

    Raises:
        CorruptError: it is something else, damaged, of a newer version, or does not hold so many `rows`.
    """
    table = decode(kind, data)
    if rows not in (ANY_ROWS, table.num_rows):
        raise CorruptError(
            ErrorKind.UNREADABLE,
            f"a {kind.name} file holds {table.num_rows} rows, not {rows}: it is not the one",
        )
    return table


def run_folder(run: str) -> str:
    """Return the folder of a run."""
    return f"{GC_FOLDER}{run}/"


def uncommitted_key(run: str, page: int, attempt: str) -> str:
    """Return the key of a page of uncommitted addresses, as one try writes it; the first page is 0."""
    return f"{run_folder(run)}uncommitted/{page:08}-{attempt}.parquet"


def commits_key(run: str, number: int, attempt: str) -> str:
    """Return the key of a file of commits, as one try writes it."""
    return f"{run_folder(run)}commits/{attempt}/{number:08}.parquet"


def roots_key(run: str, attempt: str) -> str:
    """Return the key of `roots.json`, as one try writes it."""
    return f"{run_folder(run)}commits/{attempt}/roots.json"


def state_key(run: str) -> str:
    """Return the key of `state.json`."""
    return f"{run_folder(run)}state.json"


def summary_key(run: str) -> str:
    """Return the key of `summary.json`."""
    return f"{run_folder(run)}summary.json"


def sweep_started_key(run: str) -> str:
    """Return the key that says that a sweep of a mark may be deleting."""
    return f"{run_folder(run)}sweep-started"


def deleted_key(marked_key: str) -> str:
    """Return the key of the record that a chunk of a mark was deleted."""
    return marked_key.replace("/marked/", "/deleted/")


def quarantine_key(run: str) -> str:
    """Return the key that says until when a run's objects are kept aside."""
    return f"{QUARANTINE_FOLDER}{run}.json"


def quarantined_key(run: str, address: str) -> str:
    """Return where a run puts an object aside."""
    return f"{QUARANTINE_FOLDER}{run}/{address}"
