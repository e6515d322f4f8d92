"""Golden files in tests/golden/records hold version 1 of a dump; every later lakebed must read them."""

from pathlib import Path as FilePath
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakebed.env.clock import Instant
from lakebed.errors import CorruptError, ErrorKind
from lakebed.format.dump import (
    DumpedBranch,
    DumpedTag,
    DumpKind,
    DumpWriter,
    RefsHead,
    read_branches,
    read_commits,
    read_head,
    read_heads,
    read_refs_commits,
    read_tags,
)
from lakebed.model.commits import Commit
from lakebed.model.ids import BranchName, CommitId, MetarangeId, Nonce, RepoName, RepoUid, TagName

GOLDEN = FilePath(__file__).parents[2] / "golden" / "records"

COMMITS = [
    Commit(
        id=CommitId("1" * 64),
        committer="",
        message="Repository created",
        tree=MetarangeId(""),
        date=1_700_000_000,
        created_at=Instant(1_700_000_000_000_000),
        parents=(),
        generation=1,
        nonce=Nonce("n1"),
    ),
    Commit(
        id=CommitId("2" * 64),
        committer="ada",
        message="second ✓",
        tree=MetarangeId("ab-cd"),
        date=-1,
        created_at=Instant(1_700_000_000_000_001),
        parents=(CommitId("1" * 64), CommitId("0" * 64)),
        generation=2,
        nonce=Nonce("n2"),
        metadata={"k": "v"},
        condemned_by="run",
    ),
]
BRANCHES = [
    DumpedBranch(name=BranchName("main"), commit_id=CommitId("2" * 64), hidden=False),
    DumpedBranch(name=BranchName("secret"), commit_id=CommitId("1" * 64), hidden=True),
]
HEAD = RefsHead(
    repository=RepoName("lake"),
    uid=RepoUid("u1"),
    default_branch=BranchName("main"),
    generation=2,
    number=9,
    base=7,
    at=Instant(1_700_000_000_000_000),
)
TAGS = [DumpedTag(name=TagName("v1.0"), commit_id=CommitId("1" * 64))]


def commits_file() -> bytes:
    writer = DumpWriter(DumpKind.COMMITS)
    writer.add_commits(COMMITS[:1])
    writer.add_commits(COMMITS[1:])
    return writer.finish()


def branches_file() -> bytes:
    writer = DumpWriter(DumpKind.BRANCHES)
    writer.add_branches(BRANCHES)
    return writer.finish()


def tags_file() -> bytes:
    writer = DumpWriter(DumpKind.TAGS)
    writer.add_tags(TAGS)
    return writer.finish()


def refs_file() -> bytes:
    writer = DumpWriter(DumpKind.REFS, HEAD)
    writer.add_branches(BRANCHES)
    writer.add_tags(TAGS)
    writer.add_commits(COMMITS[:1])
    writer.add_commits(COMMITS[1:])
    return writer.finish()


@pytest.mark.parametrize("golden", [True, False])
def test_a_file_of_all_refs_is_read_for_ever(golden: bool) -> None:
    data = (GOLDEN / "dump-refs.v1.parquet").read_bytes() if golden else refs_file()
    assert read_head(data) == HEAD
    assert read_heads(data) == (BRANCHES, TAGS)
    assert [c for group in read_refs_commits(data) for c in group] == COMMITS
    with pytest.raises(CorruptError, match="not branches"):
        read_branches(data)
    for read in (read_head, read_heads):
        with pytest.raises(CorruptError):
            read(tags_file())
        with pytest.raises(CorruptError):
            read(data[: len(data) // 2])


def test_version_1_files_are_read_for_ever() -> None:
    read = (GOLDEN / "dump-commits.v1.parquet").read_bytes()
    assert [c for group in read_commits(read) for c in group] == COMMITS
    assert read_branches((GOLDEN / "dump-branches.v1.parquet").read_bytes()) == BRANCHES
    assert read_tags((GOLDEN / "dump-tags.v1.parquet").read_bytes()) == TAGS


def test_what_is_written_is_read() -> None:
    assert [list(group) for group in read_commits(commits_file())] == [COMMITS[:1], COMMITS[1:]]
    assert read_branches(branches_file()) == BRANCHES
    assert read_tags(tags_file()) == TAGS


@pytest.mark.parametrize("kind", [DumpKind.COMMITS, DumpKind.BRANCHES, DumpKind.TAGS])
def test_a_dump_of_nothing_is_read_as_nothing(kind: DumpKind) -> None:
    writer = DumpWriter(kind)
    writer.add_tags([])
    assert list(readers()[kind](writer.finish())) == []


def readers() -> dict[DumpKind, Any]:
    return {DumpKind.COMMITS: read_commits, DumpKind.BRANCHES: read_branches, DumpKind.TAGS: read_tags}


def with_head(head: bytes | None) -> bytes:
    table = pq.read_table(pa.BufferReader(tags_file()))
    sink = pa.BufferOutputStream()
    pq.write_table(table.replace_schema_metadata({b"lakebed.dump": head} if head is not None else {}), sink)
    return bytes(sink.getvalue())


@pytest.mark.parametrize(
    ("head", "kind", "words"),
    [
        (None, ErrorKind.UNREADABLE, "no dump"),
        (b"nonsense", ErrorKind.UNREADABLE, "does not say"),
        (msgspec.json.encode({"kind": "tags"}), ErrorKind.NEWER_VERSION, "upgrade lakebed"),
        (msgspec.json.encode({"version": 2, "kind": "tags"}), ErrorKind.NEWER_VERSION, "upgrade lakebed"),
        (msgspec.json.encode({"version": 1, "kind": "branches"}), ErrorKind.UNREADABLE, "not tags"),
    ],
)
def test_a_file_that_is_not_what_it_should_be_is_refused(
    head: bytes | None, kind: ErrorKind, words: str
) -> None:
    with pytest.raises(CorruptError, match=words) as caught:
        read_tags(with_head(head))
    assert caught.value.kind is kind


def test_a_file_without_its_columns_is_refused() -> None:
    table = pq.read_table(pa.BufferReader(tags_file())).drop_columns(["commit_id"])
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink)
    with pytest.raises(CorruptError):
        read_tags(bytes(sink.getvalue()))


def test_a_file_cut_short_is_corrupt() -> None:
    data = tags_file()
    for end in (0, 4, len(data) // 2, len(data) - 1):
        with pytest.raises(CorruptError):
            read_tags(data[:end])
