"""Refs as Parquet: what a dump writes and a restore reads.

One file for commits, one for branches, one for tags, with the columns below; or one of
kind `refs` with all three, for the dumps that a server writes by itself. Each
says in its metadata, under `lakebed.dump`, which kind it is and in which
version (JSON), so that any tool can read one and an older lakebed can refuse it.
Commits come in row groups, so a long history is never one block.

A `refs` file has row groups of branches, then of tags, then of commits; the column `row` says which. Its metadata
also says whose refs these are and where in the chain of dumps the file stands (`RefsHead`).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import takewhile
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from lakebed.env.clock import Instant
from lakebed.errors import CorruptError, ErrorKind
from lakebed.format.identity import decode_metadata, encode_metadata
from lakebed.model.commits import Commit
from lakebed.model.ids import BranchName, CommitId, MetarangeId, Nonce, RepoName, RepoUid, TagName

VERSION: Final = 1
_KEY: Final = b"lakebed.dump"


class DumpKind(StrEnum):
    """What a file of a dump holds."""

    COMMITS = "commits"
    BRANCHES = "branches"
    TAGS = "tags"
    REFS = "refs"


@dataclass(frozen=True, slots=True, kw_only=True)
class DumpedBranch:
    """A branch without anything uncommitted."""

    name: BranchName
    commit_id: CommitId
    hidden: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class DumpedTag:
    """A tag."""

    name: TagName
    commit_id: CommitId


_COLUMNS: Final = {
    DumpKind.COMMITS: [
        ("id", pa.string()),
        ("committer", pa.string()),
        ("message", pa.string()),
        ("tree", pa.string()),
        ("date", pa.int64()),
        ("created_at", pa.int64()),
        ("parents", pa.list_(pa.string())),
        ("generation", pa.int64()),
        ("nonce", pa.string()),
        ("metadata", pa.string()),
        ("condemned_by", pa.string()),
    ],
    DumpKind.BRANCHES: [("name", pa.string()), ("commit_id", pa.string()), ("hidden", pa.bool_())],
    DumpKind.TAGS: [("name", pa.string()), ("commit_id", pa.string())],
}
_COLUMNS[DumpKind.REFS] = [
    ("row", pa.string()),
    ("name", pa.string()),
    ("hidden", pa.bool_()),
    *_COLUMNS[DumpKind.COMMITS],
]


class RefsHead(msgspec.Struct, frozen=True, kw_only=True):
    """Whose refs a `refs` file holds, and its place among the dumps of that repository.

    It holds every branch and tag, and the commits that are in none of the files from `base` to the one before. A file
    whose number is its `base` holds every commit.
    """

    repository: RepoName
    uid: RepoUid
    default_branch: BranchName
    generation: int
    number: int
    base: int
    at: Instant
    kind: str = DumpKind.REFS.value
    version: int = VERSION


class DumpWriter:
    """Builds one file of a dump, a row group at a time."""

    def __init__(self, kind: DumpKind, head: RefsHead | None = None) -> None:
        assert (head is not None) is (kind is DumpKind.REFS)
        self._kind = kind
        said = msgspec.json.encode(head or {"version": VERSION, "kind": kind.value})
        fields = [pa.field(name, type_, nullable=False) for name, type_ in _COLUMNS[kind]]
        self._schema = pa.schema(fields, metadata={_KEY: said})
        self._sink = pa.BufferOutputStream()
        self._writer = pq.ParquetWriter(self._sink, self._schema, compression="zstd")

    def add_commits(self, commits: Sequence[Commit]) -> None:
        """Add a row group of commits."""
        before = ("commit", "", False) if self._kind is DumpKind.REFS else ()
        self._add([(*before, *_commit_row(commit)) for commit in commits])

    def add_branches(self, branches: Sequence[DumpedBranch]) -> None:
        """Add a row group of branches."""
        if self._kind is DumpKind.REFS:
            self._add([("branch", b.name, b.hidden, b.commit_id, *_NO_COMMIT) for b in branches])
        else:
            self._add([(b.name, b.commit_id, b.hidden) for b in branches])

    def add_tags(self, tags: Sequence[DumpedTag]) -> None:
        """Add a row group of tags."""
        if self._kind is DumpKind.REFS:
            self._add([("tag", t.name, False, t.commit_id, *_NO_COMMIT) for t in tags])
        else:
            self._add([(t.name, t.commit_id) for t in tags])

    def finish(self) -> bytes:
        """Return the file."""
        self._writer.close()
        return bytes(self._sink.getvalue())

    def _add(self, rows: Sequence[tuple[object, ...]]) -> None:
        if rows:
            columns = zip(*rows, strict=True)
            arrays = [pa.array(c, f.type) for c, f in zip(columns, self._schema, strict=True)]
            self._writer.write_table(pa.table(arrays, schema=self._schema))


def read_commits(data: bytes) -> Iterator[list[Commit]]:
    """Yield the commits of a dump, a row group at a time.

    Raises:
        CorruptError: not a file of commits, or one of a newer version.
    """
    for rows in _read(data, DumpKind.COMMITS):
        yield [_commit(row) for row in rows]


def read_branches(data: bytes) -> list[DumpedBranch]:
    """Return the branches of a dump; errors as for `read_commits`."""
    return [
        DumpedBranch(name=BranchName(name), commit_id=CommitId(commit_id), hidden=hidden)
        for rows in _read(data, DumpKind.BRANCHES)
        for name, commit_id, hidden in rows
    ]


def read_tags(data: bytes) -> list[DumpedTag]:
    """Return the tags of a dump; errors as for `read_commits`."""
    return [
        DumpedTag(name=TagName(name), commit_id=CommitId(commit_id))
        for rows in _read(data, DumpKind.TAGS)
        for name, commit_id in rows
    ]


def read_head(data: bytes) -> RefsHead:
    """Return what a `refs` file says of itself; errors as for `read_commits`."""
    try:
        metadata = pq.read_schema(pa.BufferReader(data)).metadata or {}
        _require(metadata, DumpKind.REFS)
        return msgspec.json.decode(metadata[_KEY], type=RefsHead)
    except (pa.ArrowException, OSError, msgspec.MsgspecError) as error:
        raise CorruptError(ErrorKind.UNREADABLE, f"dump of refs does not parse: {error}") from error


def read_heads(data: bytes) -> tuple[list[DumpedBranch], list[DumpedTag]]:
    """Return the branches and tags of a `refs` file; errors as for `read_commits`."""
    branches: list[DumpedBranch] = []
    tags: list[DumpedTag] = []
    for row, name, hidden, commit_id, *_ in takewhile(
        lambda found: found[0] != "commit", (row for rows in _read(data, DumpKind.REFS) for row in rows)
    ):
        if row == "branch":
            branches.append(DumpedBranch(name=BranchName(name), commit_id=CommitId(commit_id), hidden=hidden))
        else:
            tags.append(DumpedTag(name=TagName(name), commit_id=CommitId(commit_id)))
    return branches, tags


def read_refs_commits(data: bytes) -> Iterator[list[Commit]]:
    """Yield the commits of a `refs` file, a row group at a time; errors as for `read_commits`."""
    for rows in _read(data, DumpKind.REFS):
        commits = [_commit(row[3:]) for row in rows if row[0] == "commit"]
        if commits:
            yield commits


def _commit_row(commit: Commit) -> tuple[object, ...]:
    return (
        commit.id,
        commit.committer,
        commit.message,
        commit.tree,
        commit.date,
        commit.created_at,
        commit.parents,
        commit.generation,
        commit.nonce,
        encode_metadata(commit.metadata),
        commit.condemned_by,
    )


# What a row of a branch or tag has instead, after the commit's id.
_NO_COMMIT: Final = ("", "", "", 0, 0, (), 0, "", "", "")


def _commit(row: Sequence[Any]) -> Commit:
    id_, committer, message, tree, date, created_at, parents, generation, nonce, metadata, condemned_by = row
    return Commit(
        id=CommitId(id_),
        committer=committer,
        message=message,
        tree=MetarangeId(tree),
        date=date,
        created_at=Instant(created_at),
        parents=tuple(map(CommitId, parents)),
        generation=generation,
        nonce=Nonce(nonce),
        metadata=decode_metadata(metadata),
        condemned_by=condemned_by,
    )


def _read(data: bytes, kind: DumpKind) -> Iterator[Iterator[tuple[Any, ...]]]:
    names = [name for name, _ in _COLUMNS[kind]]
    try:
        file = pq.ParquetFile(pa.BufferReader(data))
        _require(file.schema_arrow.metadata or {}, kind)
        for index in range(file.num_row_groups):
            group = file.read_row_group(index, columns=names)
            yield zip(*(group.column(name).to_pylist() for name in names), strict=True)
    except (pa.ArrowException, OSError, KeyError) as error:
        raise CorruptError(ErrorKind.UNREADABLE, f"dump of {kind} does not parse: {error}") from error


def _require(metadata: dict[bytes, bytes], kind: DumpKind) -> None:
    if _KEY not in metadata:
        raise CorruptError(ErrorKind.UNREADABLE, f"this file is no dump of {kind}")
    try:
        head = msgspec.json.decode(metadata[_KEY], type=dict[str, int | str])
    except msgspec.MsgspecError as error:
        raise CorruptError(ErrorKind.UNREADABLE, f"dump of {kind} does not say what it is") from error
    version = head.get("version")
    if not isinstance(version, int) or version > VERSION:
        raise CorruptError(
            ErrorKind.NEWER_VERSION,
            f"dump of {kind} has version {version}, this lakebed reads up to {VERSION}: upgrade lakebed",
        )
    if head.get("kind") != kind:
        raise CorruptError(ErrorKind.UNREADABLE, f"this file holds {head.get('kind')}, not {kind}")
