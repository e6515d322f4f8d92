"""Golden bytes in tests/golden/records hold every version of every record for ever, one file a value."""

import inspect
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path as FilePath
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.env.clock import Instant
from lakebed.errors import CorruptError, ErrorKind
from lakebed.format import records
from lakebed.model.branch import Branch, DeletedBranch, Pending, Slot
from lakebed.model.commits import Commit, DeletedTag, Tag
from lakebed.model.diffs import ChangeCounts
from lakebed.model.ids import (
    BranchName,
    CommitId,
    MetarangeId,
    Nonce,
    RepoName,
    RepoUid,
    StagingToken,
    TagName,
)
from lakebed.model.layers import RetiredLayer, RetiredTree, SegmentLayer, TokenLayer
from lakebed.model.maintenance import MaintenanceTurn, TodoEntry
from lakebed.model.repository import (
    BranchProtection,
    CleanupEntry,
    CreatingRepository,
    DeletingRepository,
    GoneRepository,
    Repository,
    TokenCleanup,
)
from lakebed.model.stash import Stash, StashState

GOLDEN = FilePath(__file__).parents[2] / "golden" / "records"

C1, C2 = CommitId("1" * 64), CommitId("2" * 64)
SEGMENT = SegmentLayer(
    id="seg",
    dataset="lake/main",
    seq=3,
    min_key="a",
    max_key="é",
    entries=5,
    tombstones=2,
    bytes=1 << 40,
    level=1,
    hash="ab" * 32,
)
TOKEN = TokenLayer(token=StagingToken("lake-main:t2"), seq=2)

VALUES: dict[str, tuple[str, Any]] = {
    "branch-minimal": (
        "branch",
        Branch(name=BranchName("main"), incarnation=Nonce("i"), commit_id=C1),
    ),
    "branch-full": (
        "branch",
        Branch(
            name=BranchName("main"),
            incarnation=Nonce("i"),
            commit_id=C1,
            staging_token=StagingToken("lake-main:t9"),
            sealed=(SEGMENT, TOKEN),
            compacted=MetarangeId("aa-bb"),
            next_seq=4,
            last_token=7,
            min_era=8,
            l2_slot=Slot(job="j1", token=6),
            fold_slot=Slot(job="j2", token=7),
            pending={
                Nonce("n"): Pending(
                    commits=(C1, C2),
                    renewed_at=Instant(1_700_000_000_000_000),
                    below=3,
                    since=Instant(1_600_000_000_000_000),
                    lost_seconds=0.5,
                )
            },
            retired=(
                RetiredLayer(layer=TokenLayer(token=StagingToken("lake-main:t1"), seq=1), at=Instant(5)),
                RetiredLayer(layer=SEGMENT, at=Instant(6)),
            ),
            stashes=(Nonce("s1"),),
            hidden=True,
            tentative=True,
            created_by=Nonce("c"),
            updated_at=Instant(1_700_000_000_000_001),
            compacted_counts=ChangeCounts(added=1, changed=2, removed=1_000_000),
            retired_trees=(RetiredTree(tree=MetarangeId("cc-dd"), at=Instant(7)),),
            parked=True,
            indexed=True,
        ),
    ),
    "branch-deleted": (
        "branch",
        DeletedBranch(
            name=BranchName("main"),
            next_seq=4,
            last_token=7,
            min_era=8,
            retired=(RetiredLayer(layer=TOKEN, at=Instant(5)),),
            updated_at=Instant(9),
            retired_trees=(RetiredTree(tree=MetarangeId("cc-dd"), at=Instant(7)),),
            indexed=True,
        ),
    ),
    "tag": ("tag", Tag(name=TagName("v1.0"), commit_id=C1, tentative=True, created_by=Nonce("c"))),
    "tag-deleted": ("tag", DeletedTag(name=TagName("v1.0"))),
    "commit": (
        "commit",
        Commit(
            id=C2,
            committer="ada",
            message="first\nsecond ✓",
            tree=MetarangeId("ab-cd"),
            date=-1,
            created_at=Instant(1_700_000_000_000_000),
            parents=(C1,),
            generation=2,
            nonce=Nonce("n"),
            metadata={"k": "v", "a": ""},
            condemned_by="run",
        ),
    ),
    "stash": (
        "stash",
        Stash(
            id=Nonce("s"),
            branch=BranchName("main"),
            base=C1,
            layer=TOKEN,
            message="later",
            state=StashState.STANDING,
            at=Instant(5),
        ),
    ),
    "stash-large": (
        "stash",
        Stash(
            id=Nonce("s"),
            branch=BranchName("main"),
            base=C1,
            layer=SEGMENT,
            message="later",
            state=StashState.STANDING,
            at=Instant(5),
            operation=Nonce("o"),
            incarnation=Nonce("i"),
            more=(SEGMENT,),
        ),
    ),
    "repository": (
        "repository",
        Repository(
            name=RepoName("lake"),
            uid=RepoUid("u"),
            namespace="s3://bucket/lake",
            default_branch=BranchName("main"),
            created_at=Instant(5),
            read_only=True,
            bare=True,
            generation=2,
            taken_over_by="installation b",
            gc_not_before=Instant(7),
        ),
    ),
    "repository-creating": (
        "repository",
        CreatingRepository(
            name=RepoName("lake"),
            uid=RepoUid("u"),
            namespace="s3://bucket/lake",
            since=Instant(5),
            adopting=True,
        ),
    ),
    "repository-deleting": (
        "repository",
        DeletingRepository(
            name=RepoName("lake"),
            uid=RepoUid("u"),
            namespace="s3://bucket/lake",
            delete_data=True,
            at=Instant(5),
        ),
    ),
    "repository-gone": ("repository", GoneRepository(name=RepoName("lake"))),
    "cleanup-repository": (
        "cleanup",
        CleanupEntry(
            name=RepoName("lake"),
            uid=RepoUid("u"),
            namespace="s3://bucket/lake",
            delete_data=True,
            marked_at=Instant(5),
        ),
    ),
    "cleanup-token": (
        "cleanup",
        TokenCleanup(
            token=StagingToken("lake-main:t"),
            partition="lake-u",
            branch=BranchName("main"),
            retired_at=Instant(5),
        ),
    ),
    "protection": ("protection", BranchProtection(rules={"main": ("commit", "staging_write")})),
    "repository-metadata": ("repository_metadata", {"k": "v"}),
    "todo": ("todo", TodoEntry(due=Instant(1_700_000_000_000_000), nonce=Nonce("n"))),
    "turn": (
        "turn",
        MaintenanceTurn(
            holder=Nonce("h"),
            until=Instant(1_700_000_000_000_000),
            cursor="lake",
            pass_began=Instant(5),
            full_began=Instant(6),
        ),
    ),
    "copy": ("copy", Instant(5)),
}


VERSIONS = {"stash-large": 2}


def golden_file(name: str) -> str:
    return f"{name}.v{VERSIONS.get(name, 1)}.hex"


def codec(kind: str) -> tuple[Callable[[Any], bytes], Callable[[bytes], Any]]:
    return getattr(records, f"encode_{kind}"), getattr(records, f"decode_{kind}")


@pytest.mark.parametrize("name", VALUES)
def test_the_bytes_of_a_version_never_change(name: str) -> None:
    kind, value = VALUES[name]
    encode, decode = codec(kind)
    golden = bytes.fromhex((GOLDEN / golden_file(name)).read_text())
    assert encode(value) == golden
    assert decode(golden) == value


@pytest.mark.parametrize("name", ["branch-minimal", "branch-full", "branch-deleted"])
def test_records_from_before_compaction_are_read_for_ever(name: str) -> None:
    golden = bytes.fromhex((GOLDEN / "older" / f"{name}.v1.hex").read_text())
    value = VALUES[name][1]
    added: dict[str, Any] = {"retired_trees": (), "indexed": False}
    if isinstance(value, Branch):
        plain = replace(SEGMENT, hash="")
        added |= {
            "compacted_counts": None,
            "parked": False,
            "pending": {
                nonce: replace(entry, below=None) for nonce, entry in without_turns(value).pending.items()
            },
            "sealed": tuple(plain if layer == SEGMENT else layer for layer in value.sealed),
            "retired": tuple(replace(r, layer=plain) if r.layer == SEGMENT else r for r in value.retired),
        }
    assert records.decode_branch(golden) == replace(value, **added)


@pytest.mark.parametrize("name", ["branch-minimal", "branch-full"])
def test_records_that_cannot_say_whether_compaction_has_given_up_are_read_for_ever(name: str) -> None:
    golden = bytes.fromhex((GOLDEN / "older" / f"{name}.v1.compacted.hex").read_text())
    value = VALUES[name][1]
    assert isinstance(value, Branch)
    assert records.decode_branch(golden) == replace(without_turns(value), parked=False, indexed=False)


def test_records_that_cannot_say_who_has_lost_are_read_for_ever() -> None:
    golden = bytes.fromhex((GOLDEN / "older" / "branch-full.v1.parked.hex").read_text())
    value = VALUES["branch-full"][1]
    assert isinstance(value, Branch)
    assert records.decode_branch(golden) == replace(without_turns(value), indexed=False)


def without_turns(branch: Branch) -> Branch:
    pending = {nonce: replace(entry, since=None, lost_seconds=0.0) for nonce, entry in branch.pending.items()}
    return replace(branch, pending=pending)


def test_clean_up_entries_that_do_not_say_when_the_token_retired_are_read_for_ever() -> None:
    golden = bytes.fromhex((GOLDEN / "older" / "cleanup-token.v1.hex").read_text())
    assert records.decode_cleanup(golden) == replace(VALUES["cleanup-token"][1], retired_at=None)


def test_clean_up_entries_from_before_late_uploads_were_freed_are_read_for_ever() -> None:
    golden = bytes.fromhex((GOLDEN / "older" / "cleanup-repository.v1.hex").read_text())
    assert records.decode_cleanup(golden) == replace(VALUES["cleanup-repository"][1], marked_at=None)


@pytest.mark.parametrize("name", ["repository", "repository-creating"])
def test_records_from_before_adoption_are_read_for_ever(name: str) -> None:
    golden = bytes.fromhex((GOLDEN / "older" / f"{name}.v1.hex").read_text())
    value = VALUES[name][1]
    added: dict[str, Any] = {"adopting": False}
    if isinstance(value, Repository):
        added = {"generation": 0, "taken_over_by": "", "gc_not_before": Instant(0)}
    assert records.decode_repository(golden) == replace(value, **added)


@pytest.mark.parametrize("name", ["branch-minimal", "branch-full", "branch-deleted"])
def test_records_from_before_the_todo_index_are_read_for_ever(name: str) -> None:
    golden = bytes.fromhex((GOLDEN / "older" / f"{name}.v1.unindexed.hex").read_text())
    assert records.decode_branch(golden) == replace(VALUES[name][1], indexed=False)


def test_every_codec_and_every_golden_file_is_tested() -> None:
    kinds = {
        name.removeprefix("encode_") for name, _ in inspect.getmembers(records) if name.startswith("encode_")
    }
    assert kinds == {kind for kind, _ in VALUES.values()}
    assert {path.name for path in GOLDEN.glob("*.hex")} == set(map(golden_file, VALUES))


@pytest.mark.parametrize("name", VALUES)
def test_a_newer_version_is_refused_with_the_remedy(name: str) -> None:
    encode, decode = codec(VALUES[name][0])
    newer = b"\x03" + encode(VALUES[name][1])[1:]
    with pytest.raises(CorruptError, match="upgrade lakebed") as caught:
        decode(newer)
    assert caught.value.kind is ErrorKind.NEWER_VERSION


@pytest.mark.parametrize("name", VALUES)
def test_a_record_cut_short_anywhere_is_corrupt(name: str) -> None:
    encode, decode = codec(VALUES[name][0])
    data = encode(VALUES[name][1])
    for end in range(len(data)):
        with pytest.raises(CorruptError):
            decode(data[:end])


@pytest.mark.parametrize("name", VALUES)
def test_a_field_added_later_is_skipped(name: str) -> None:
    encode, decode = codec(VALUES[name][0])
    data = encode(VALUES[name][1])
    fields = msgspec.msgpack.decode(data[1:])
    more = data[:1] + msgspec.msgpack.encode([*fields, {"added": ["later"]}])
    assert decode(more) == VALUES[name][1]


@given(st.binary(max_size=200))
def test_any_bytes_decode_or_are_corrupt(data: bytes) -> None:
    for kind in {kind for kind, _ in VALUES.values()}:
        try:
            codec(kind)[1](b"\x01" + data)
        except CorruptError:
            continue


@given(st.sampled_from(sorted(VALUES)), st.data())
def test_a_damaged_record_decodes_or_is_corrupt(name: str, data: st.DataObject) -> None:
    encode, decode = codec(VALUES[name][0])
    damaged = bytearray(encode(VALUES[name][1]))
    damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    try:
        decode(bytes(damaged))
    except CorruptError:
        return


def test_layers_out_of_order_are_corrupt() -> None:
    fields = msgspec.msgpack.decode(records.encode_branch(VALUES["branch-full"][1])[1:])
    fields[5].reverse()
    with pytest.raises(CorruptError, match="newest first"):
        records.decode_branch(b"\x01" + msgspec.msgpack.encode(fields))


def test_equal_rules_have_equal_bytes() -> None:
    one = BranchProtection(rules={"a": ("commit",), "b": ("staging_write", "commit", "commit")})
    two = BranchProtection(rules={"b": ("commit", "staging_write"), "a": ("commit",)})
    assert records.encode_protection(one) == records.encode_protection(two)
