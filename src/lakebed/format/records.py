"""Refs and repositories as KV values (see `codec` for the version byte and what may change).

A union has its tag first. Structs of their own, not the nouns of `model`, are
stored: renaming a field there cannot change a byte here.
"""

from typing import Final

from lakebed.env.clock import Instant
from lakebed.errors import CorruptError, ErrorKind
from lakebed.format.codec import Codec, Stored
from lakebed.model.branch import Branch, BranchRecord, DeletedBranch, Pending, Slot
from lakebed.model.commits import Commit, DeletedTag, Tag, TagRecord
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
from lakebed.model.layers import Layer, RetiredLayer, RetiredTree, SegmentLayer, TokenLayer
from lakebed.model.maintenance import MaintenanceTurn, TodoEntry
from lakebed.model.repository import (
    BranchProtection,
    CleanupEntry,
    CreatingRepository,
    DeletingRepository,
    GoneRepository,
    Repository,
    RepositoryRecord,
    TokenCleanup,
)
from lakebed.model.stash import Stash, StashState


class _TokenLayer(Stored, tag=1):
    token: StagingToken
    seq: int


class _SegmentLayer(Stored, tag=2):
    id: str
    dataset: str
    seq: int
    min_key: str
    max_key: str
    entries: int
    tombstones: int
    bytes: int
    level: int
    hash: str = ""


class _RetiredTree(Stored):
    tree: MetarangeId
    at: Instant


class _Counts(Stored):
    added: int
    changed: int
    removed: int


class _RetiredLayer(Stored):
    layer: _TokenLayer | _SegmentLayer
    at: Instant


class _Pending(Stored):
    commits: tuple[CommitId, ...]
    renewed_at: Instant
    below: int | None = None
    since: Instant | None = None
    lost_seconds: float = 0.0


class _Slot(Stored):
    job: str
    token: int


class _Branch(Stored, tag=1):
    name: BranchName
    incarnation: Nonce
    commit_id: CommitId
    staging_token: StagingToken | None
    sealed: tuple[_TokenLayer | _SegmentLayer, ...]
    compacted: MetarangeId | None
    next_seq: int
    last_token: int
    min_era: int
    l2_slot: _Slot | None
    fold_slot: _Slot | None
    pending: dict[Nonce, _Pending]
    retired: tuple[_RetiredLayer, ...]
    stashes: tuple[Nonce, ...]
    hidden: bool
    tentative: bool
    created_by: Nonce
    updated_at: Instant
    compacted_counts: _Counts | None = None
    retired_trees: tuple[_RetiredTree, ...] = ()
    parked: bool = False
    indexed: bool = False


class _DeletedBranch(Stored, tag=2):
    name: BranchName
    next_seq: int
    last_token: int
    min_era: int
    retired: tuple[_RetiredLayer, ...]
    updated_at: Instant
    retired_trees: tuple[_RetiredTree, ...] = ()
    indexed: bool = False


class _Tag(Stored, tag=1):
    name: TagName
    commit_id: CommitId
    tentative: bool
    created_by: Nonce


class _DeletedTag(Stored, tag=2):
    name: TagName


class _Commit(Stored):
    id: CommitId
    committer: str
    message: str
    tree: MetarangeId
    date: int
    created_at: Instant
    parents: tuple[CommitId, ...]
    generation: int
    nonce: Nonce
    metadata: dict[str, str]
    condemned_by: str


class _Stash(Stored):
    id: Nonce
    branch: BranchName
    base: CommitId
    layer: _TokenLayer | _SegmentLayer
    message: str
    state: StashState
    at: Instant
    operation: Nonce = Nonce("")
    incarnation: Nonce = Nonce("")


class _LargeStash(_Stash):
    """A version of its own: an older lakebed that skipped the other layers would pop a part."""

    more: tuple[_TokenLayer | _SegmentLayer, ...] = ()


class _Live(Stored, tag=1):
    name: RepoName
    uid: RepoUid
    namespace: str
    default_branch: BranchName
    created_at: Instant
    read_only: bool
    bare: bool
    generation: int = 0
    taken_over_by: str = ""
    gc_not_before: Instant = Instant(0)


class _Creating(Stored, tag=2):
    name: RepoName
    uid: RepoUid
    namespace: str
    since: Instant
    adopting: bool = False


class _Deleting(Stored, tag=3):
    name: RepoName
    uid: RepoUid
    namespace: str
    delete_data: bool
    at: Instant


class _Gone(Stored, tag=4):
    name: RepoName


class _RepositoryCleanup(Stored, tag=1):
    name: RepoName
    uid: RepoUid
    namespace: str
    delete_data: bool
    marked_at: Instant | None = None


class _TokenCleanup(Stored, tag=2):
    token: StagingToken
    partition: str
    branch: BranchName
    retired_at: Instant | None = None


class _Protection(Stored):
    rules: dict[str, tuple[str, ...]]


class _Metadata(Stored):
    values: dict[str, str]


class _Copy(Stored):
    at: Instant


class _Todo(Stored):
    due: Instant
    nonce: Nonce


class _Turn(Stored):
    holder: Nonce
    until: Instant
    cursor: str
    pass_began: Instant
    full_began: Instant


_BRANCH: Final = Codec[_Branch | _DeletedBranch]("branch", 1, _Branch | _DeletedBranch)
_TAG: Final = Codec[_Tag | _DeletedTag]("tag", 1, _Tag | _DeletedTag)
_COMMIT: Final = Codec[_Commit]("commit", 1, _Commit)
_STASH: Final = Codec[_Stash]("stash", 1, _Stash)
_PLAIN_STASH: Final = b"\x01"
_LARGE_STASH: Final = Codec[_LargeStash]("stash", 2, _LargeStash)
_REPOSITORY: Final = Codec[_Live | _Creating | _Deleting | _Gone](
    "repository", 1, _Live | _Creating | _Deleting | _Gone
)
_CLEANUP: Final = Codec[_RepositoryCleanup | _TokenCleanup]("clean-up", 1, _RepositoryCleanup | _TokenCleanup)
_PROTECTION: Final = Codec[_Protection]("branch protection", 1, _Protection)
_METADATA: Final = Codec[_Metadata]("repository metadata", 1, _Metadata)
_COPY: Final = Codec[_Copy]("copy", 1, _Copy)
_TODO: Final = Codec[_Todo]("todo", 1, _Todo)
_TURN: Final = Codec[_Turn]("maintenance turn", 1, _Turn)


def encode_branch(record: BranchRecord) -> bytes:
    """Return a live or deleted branch as its KV value."""
    if isinstance(record, DeletedBranch):
        return _BRANCH.seal(
            _DeletedBranch(
                record.name,
                record.next_seq,
                record.last_token,
                record.min_era,
                tuple(map(_store_retired, record.retired)),
                record.updated_at,
                tuple(map(_store_retired_tree, record.retired_trees)),
                record.indexed,
            )
        )
    return _BRANCH.seal(
        _Branch(
            record.name,
            record.incarnation,
            record.commit_id,
            record.staging_token,
            tuple(map(_store_layer, record.sealed)),
            record.compacted,
            record.next_seq,
            record.last_token,
            record.min_era,
            _store_slot(record.l2_slot),
            _store_slot(record.fold_slot),
            {
                nonce: _Pending(p.commits, p.renewed_at, p.below, p.since, p.lost_seconds)
                for nonce, p in record.pending.items()
            },
            tuple(map(_store_retired, record.retired)),
            record.stashes,
            record.hidden,
            record.tentative,
            record.created_by,
            record.updated_at,
            _store_counts(record.compacted_counts),
            tuple(map(_store_retired_tree, record.retired_trees)),
            record.parked,
            record.indexed,
        )
    )


def decode_branch(data: bytes) -> BranchRecord:
    """Return what `encode_branch` was given.

    Raises:
        CorruptError: not bytes that it returned, or those of a newer version.
    """
    s = _BRANCH.open(data)
    if isinstance(s, _DeletedBranch):
        return DeletedBranch(
            name=s.name,
            next_seq=s.next_seq,
            last_token=s.last_token,
            min_era=s.min_era,
            retired=tuple(map(_load_retired, s.retired)),
            updated_at=s.updated_at,
            retired_trees=tuple(map(_load_retired_tree, s.retired_trees)),
            indexed=s.indexed,
        )
    try:
        return Branch(
            name=s.name,
            incarnation=s.incarnation,
            commit_id=s.commit_id,
            staging_token=s.staging_token,
            sealed=tuple(map(_load_layer, s.sealed)),
            compacted=s.compacted,
            next_seq=s.next_seq,
            last_token=s.last_token,
            min_era=s.min_era,
            l2_slot=_load_slot(s.l2_slot),
            fold_slot=_load_slot(s.fold_slot),
            pending={
                nonce: Pending(
                    commits=p.commits,
                    renewed_at=p.renewed_at,
                    below=p.below,
                    since=p.since,
                    lost_seconds=p.lost_seconds,
                )
                for nonce, p in s.pending.items()
            },
            retired=tuple(map(_load_retired, s.retired)),
            stashes=s.stashes,
            hidden=s.hidden,
            tentative=s.tentative,
            created_by=s.created_by,
            updated_at=s.updated_at,
            compacted_counts=_load_counts(s.compacted_counts),
            retired_trees=tuple(map(_load_retired_tree, s.retired_trees)),
            parked=s.parked,
            indexed=s.indexed,
        )
    except (
        AssertionError
    ) as error:  # The same property that the writer asserted; here it is the world's fault.
        raise CorruptError(ErrorKind.UNREADABLE, f"record of branch {s.name!r}: {error}") from error


def encode_tag(record: TagRecord) -> bytes:
    """Return a live or deleted tag as its KV value."""
    if isinstance(record, DeletedTag):
        return _TAG.seal(_DeletedTag(record.name))
    return _TAG.seal(_Tag(record.name, record.commit_id, record.tentative, record.created_by))


def decode_tag(data: bytes) -> TagRecord:
    """Return what `encode_tag` was given; errors as for `decode_branch`."""
    s = _TAG.open(data)
    if isinstance(s, _DeletedTag):
        return DeletedTag(name=s.name)
    return Tag(name=s.name, commit_id=s.commit_id, tentative=s.tentative, created_by=s.created_by)


def encode_commit(commit: Commit) -> bytes:
    """Return a commit as its KV value."""
    return _COMMIT.seal(
        _Commit(
            commit.id,
            commit.committer,
            commit.message,
            commit.tree,
            commit.date,
            commit.created_at,
            commit.parents,
            commit.generation,
            commit.nonce,
            dict(sorted(commit.metadata.items())),
            commit.condemned_by,
        )
    )


def decode_commit(data: bytes) -> Commit:
    """Return what `encode_commit` was given; errors as for `decode_branch`."""
    s = _COMMIT.open(data)
    return Commit(
        id=s.id,
        committer=s.committer,
        message=s.message,
        tree=s.tree,
        date=s.date,
        created_at=s.created_at,
        parents=s.parents,
        generation=s.generation,
        nonce=s.nonce,
        metadata=s.metadata,
        condemned_by=s.condemned_by,
    )


def encode_stash(stash: Stash) -> bytes:
    """Return a stash as its KV value."""
    fields = (
        stash.id,
        stash.branch,
        stash.base,
        _store_layer(stash.layer),
        stash.message,
        stash.state,
        stash.at,
        stash.operation,
        stash.incarnation,
    )
    if stash.more:
        return _LARGE_STASH.seal(_LargeStash(*fields, tuple(map(_store_layer, stash.more))))
    return _STASH.seal(_Stash(*fields))


def decode_stash(data: bytes) -> Stash:
    """Return what `encode_stash` was given; errors as for `decode_branch`."""
    is_plain = data[:1] == _PLAIN_STASH
    s = _STASH.open(data) if is_plain else _LARGE_STASH.open(data)
    return Stash(
        id=s.id,
        branch=s.branch,
        base=s.base,
        layer=_load_layer(s.layer),
        message=s.message,
        state=s.state,
        at=s.at,
        operation=s.operation,
        incarnation=s.incarnation,
        more=tuple(map(_load_layer, s.more)) if isinstance(s, _LargeStash) else (),
    )


def encode_repository(record: RepositoryRecord) -> bytes:
    """Return a repository's record, in whatever state, as its KV value."""
    match record:
        case Repository():
            return _REPOSITORY.seal(
                _Live(
                    record.name,
                    record.uid,
                    record.namespace,
                    record.default_branch,
                    record.created_at,
                    record.read_only,
                    record.bare,
                    record.generation,
                    record.taken_over_by,
                    record.gc_not_before,
                )
            )
        case CreatingRepository():
            return _REPOSITORY.seal(
                _Creating(record.name, record.uid, record.namespace, record.since, record.adopting)
            )
        case DeletingRepository():
            return _REPOSITORY.seal(
                _Deleting(record.name, record.uid, record.namespace, record.delete_data, record.at)
            )
        case GoneRepository():
            return _REPOSITORY.seal(_Gone(record.name))


def decode_repository(data: bytes) -> RepositoryRecord:
    """Return what `encode_repository` was given; errors as for `decode_branch`."""
    match _REPOSITORY.open(data):
        case _Live() as s:
            return Repository(
                name=s.name,
                uid=s.uid,
                namespace=s.namespace,
                default_branch=s.default_branch,
                created_at=s.created_at,
                read_only=s.read_only,
                bare=s.bare,
                generation=s.generation,
                taken_over_by=s.taken_over_by,
                gc_not_before=s.gc_not_before,
            )
        case _Creating() as s:
            return CreatingRepository(
                name=s.name, uid=s.uid, namespace=s.namespace, since=s.since, adopting=s.adopting
            )
        case _Deleting() as s:
            return DeletingRepository(
                name=s.name, uid=s.uid, namespace=s.namespace, delete_data=s.delete_data, at=s.at
            )
        case _Gone() as s:
            return GoneRepository(name=s.name)


def encode_cleanup(entry: CleanupEntry | TokenCleanup) -> bytes:
    """Return work for the cleaner as its KV value."""
    if isinstance(entry, TokenCleanup):
        return _CLEANUP.seal(_TokenCleanup(entry.token, entry.partition, entry.branch, entry.retired_at))
    return _CLEANUP.seal(
        _RepositoryCleanup(entry.name, entry.uid, entry.namespace, entry.delete_data, entry.marked_at)
    )


def decode_cleanup(data: bytes) -> CleanupEntry | TokenCleanup:
    """Return what `encode_cleanup` was given; errors as for `decode_branch`."""
    s = _CLEANUP.open(data)
    if isinstance(s, _TokenCleanup):
        return TokenCleanup(token=s.token, partition=s.partition, branch=s.branch, retired_at=s.retired_at)
    return CleanupEntry(
        name=s.name, uid=s.uid, namespace=s.namespace, delete_data=s.delete_data, marked_at=s.marked_at
    )


def encode_protection(protection: BranchProtection) -> bytes:
    """Return branch protection rules as their KV value; equal rules give equal bytes."""
    rules = {pattern: tuple(sorted(set(protection.rules[pattern]))) for pattern in sorted(protection.rules)}
    return _PROTECTION.seal(_Protection(rules))


def decode_protection(data: bytes) -> BranchProtection:
    """Return what `encode_protection` was given, sorted; errors as for `decode_branch`."""
    return BranchProtection(rules=_PROTECTION.open(data).rules)


def encode_repository_metadata(values: dict[str, str]) -> bytes:
    """Return a repository's metadata as its KV value."""
    return _METADATA.seal(_Metadata(dict(sorted(values.items()))))


def decode_repository_metadata(data: bytes) -> dict[str, str]:
    """Return what `encode_repository_metadata` was given, sorted; errors as for `decode_branch`."""
    return _METADATA.open(data).values


def encode_todo(entry: TodoEntry) -> bytes:
    """Return an entry of the `todo` index as its KV value."""
    return _TODO.seal(_Todo(entry.due, entry.nonce))


def decode_todo(data: bytes) -> TodoEntry:
    """Return what `encode_todo` was given; errors as for `decode_branch`."""
    s = _TODO.open(data)
    return TodoEntry(due=s.due, nonce=s.nonce)


def encode_turn(turn: MaintenanceTurn) -> bytes:
    """Return the record of maintenance's turn as its KV value."""
    return _TURN.seal(_Turn(turn.holder, turn.until, turn.cursor, turn.pass_began, turn.full_began))


def decode_turn(data: bytes) -> MaintenanceTurn:
    """Return what `encode_turn` was given; errors as for `decode_branch`."""
    s = _TURN.open(data)
    return MaintenanceTurn(
        holder=s.holder, until=s.until, cursor=s.cursor, pass_began=s.pass_began, full_began=s.full_began
    )


def encode_copy(at: Instant) -> bytes:
    """Return as a KV value that an object was copied without its bytes at that time."""
    return _COPY.seal(_Copy(at))


def decode_copy(data: bytes) -> Instant:
    """Return what `encode_copy` was given; errors as for `decode_branch`."""
    return _COPY.open(data).at


def _store_layer(layer: Layer) -> _TokenLayer | _SegmentLayer:
    if isinstance(layer, TokenLayer):
        return _TokenLayer(layer.token, layer.seq)
    return _SegmentLayer(
        layer.id,
        layer.dataset,
        layer.seq,
        layer.min_key,
        layer.max_key,
        layer.entries,
        layer.tombstones,
        layer.bytes,
        layer.level,
        layer.hash,
    )


def _load_layer(s: _TokenLayer | _SegmentLayer) -> Layer:
    if isinstance(s, _TokenLayer):
        return TokenLayer(token=s.token, seq=s.seq)
    return SegmentLayer(
        id=s.id,
        dataset=s.dataset,
        seq=s.seq,
        min_key=s.min_key,
        max_key=s.max_key,
        entries=s.entries,
        tombstones=s.tombstones,
        bytes=s.bytes,
        level=s.level,
        hash=s.hash,
    )


def _store_retired(retired: RetiredLayer) -> _RetiredLayer:
    return _RetiredLayer(_store_layer(retired.layer), retired.at)


def _load_retired(s: _RetiredLayer) -> RetiredLayer:
    return RetiredLayer(layer=_load_layer(s.layer), at=s.at)


def _store_retired_tree(retired: RetiredTree) -> _RetiredTree:
    return _RetiredTree(retired.tree, retired.at)


def _load_retired_tree(s: _RetiredTree) -> RetiredTree:
    return RetiredTree(tree=s.tree, at=s.at)


def _store_counts(counts: ChangeCounts | None) -> _Counts | None:
    return _Counts(counts.added, counts.changed, counts.removed) if counts is not None else None


def _load_counts(s: _Counts | None) -> ChangeCounts | None:
    return ChangeCounts(added=s.added, changed=s.changed, removed=s.removed) if s is not None else None


def _store_slot(slot: Slot | None) -> _Slot | None:
    return _Slot(slot.job, slot.token) if slot else None


def _load_slot(s: _Slot | None) -> Slot | None:
    return Slot(job=s.job, token=s.token) if s else None
