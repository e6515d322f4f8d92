"""What the server answers, as frozen values. Fields that it adds later are ignored."""

from datetime import datetime
from typing import Generic, Literal, TypeVar

import msgspec

from lakebed.limits import GRACE_SECONDS

T = TypeVar("T")


class Pagination(msgspec.Struct, frozen=True, kw_only=True):
    """Whether there is more, and from where to go on."""

    has_more: bool
    next_offset: str = ""


class Page(msgspec.Struct, Generic[T], frozen=True):
    """One page of a listing."""

    pagination: Pagination
    results: list[T]


class RepositoryInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A repository."""

    id: str
    storage_namespace: str
    default_branch: str
    creation_date: int
    read_only: bool = False


class RefInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A branch or a tag, and the commit it names."""

    id: str
    commit_id: str


class CommitInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A commit."""

    id: str
    parents: list[str]
    committer: str
    message: str
    creation_date: int
    meta_range_id: str
    metadata: dict[str, str] | None = None
    generation: int = 0


class ObjectInfo(msgspec.Struct, frozen=True, kw_only=True):
    """An object; or a common prefix, which has nothing but its path."""

    path: str
    path_type: str
    physical_address: str = ""
    checksum: str = ""
    mtime: int = 0
    size_bytes: int = 0
    content_type: str = ""
    metadata: dict[str, str] | None = None
    physical_address_expiry: int | None = None
    """If the address was asked for as a signed URL: when that stops working, in Unix seconds."""

    @property
    def is_prefix(self) -> bool:
        return self.path_type == "common_prefix"


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """One difference between two refs: `added`, `removed`, `changed`, `conflict` or `prefix_changed`."""

    type: str
    path: str
    path_type: str
    size_bytes: int | None = None


class MergeBase(msgspec.Struct, frozen=True, kw_only=True):
    """Where two histories part."""

    source_commit_id: str
    destination_commit_id: str
    base_commit_id: str


class StagingLocation(msgspec.Struct, frozen=True, kw_only=True):
    """An address that was given out for one object to be written to, and a signed URL to do it with."""

    physical_address: str
    presigned_url: str | None = None
    presigned_url_expiry: int | None = None


class SegmentInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A segment that was staged."""

    id: str
    entries: int
    tombstones: int


class TaskFailure(msgspec.Struct, frozen=True, kw_only=True):
    """Why a task failed: the phrase that lakeFS has for it, and what a Lakebed server says beyond it."""

    message: str = ""
    detail: str = ""


class TaskStatus(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
    """How a task goes."""

    task_id: str
    completed: bool
    result: T | None = None
    error: TaskFailure | None = None
    status_code: int | None = None


class GcBranchRule(msgspec.Struct, frozen=True, kw_only=True):
    """For how many days what a branch no longer shows is kept."""

    branch_id: str
    retention_days: int


class GcRules(msgspec.Struct, frozen=True, kw_only=True):
    """For how many days what no branch shows any more is kept."""

    default_retention_days: int
    branches: list[GcBranchRule]


class ProtectionRule(msgspec.Struct, frozen=True, kw_only=True):
    """Branches that only merges may change: a glob of their names."""

    pattern: str


class MergeResult(msgspec.Struct, frozen=True, kw_only=True):
    """The commit that a merge made."""

    reference: str


class ImportStatus(msgspec.Struct, frozen=True, kw_only=True):
    """How an import goes."""

    completed: bool
    ingested_objects: int = 0
    metarange_id: str = ""
    commit: CommitInfo | None = None
    error: TaskFailure | None = None


class RefsManifest(msgspec.Struct, frozen=True, kw_only=True):
    """The names of a dump's files in the namespace."""

    commits_meta_range_id: str
    tags_meta_range_id: str
    branches_meta_range_id: str


class DumpStatus(msgspec.Struct, frozen=True, kw_only=True):
    """How a dump goes; `progress` counts commits."""

    id: str
    done: bool
    error: str | None = None
    refs: RefsManifest | None = None
    progress: int = 0
    detail: str = ""
    """What a Lakebed server says beyond `error`."""


class UnrestoredRef(msgspec.Struct, frozen=True, kw_only=True):
    """A branch or tag of a dump that could not be brought back, and why."""

    kind: str
    name: str
    commit_id: str
    reason: str


class RestoreStatus(msgspec.Struct, frozen=True, kw_only=True):
    """How a restore goes; `progress` counts commits, the other numbers are those of the dump."""

    id: str
    done: bool
    error: str | None = None
    progress: int = 0
    commits: int = 0
    branches: int = 0
    tags: int = 0
    unrestored: tuple[UnrestoredRef, ...] = ()
    detail: str = ""
    """What a Lakebed server says beyond `error`."""


class AdoptionStarted(msgspec.Struct, frozen=True):
    """The repository that adopts a namespace, and the task."""

    id: str
    repository: str


class MissingFile(msgspec.Struct, frozen=True, kw_only=True):
    """What the storage does not have, and the commit that refers to it."""

    where: str
    what: str


class AdoptionResult(msgspec.Struct, frozen=True, kw_only=True):
    """What an adoption brought back, and what cannot come back. Lists hold the first ones, counts all."""

    repository: str
    storage_namespace: str
    generation: int
    default_branch: str
    dump: str
    dumped_at: datetime | None = None
    gc_not_before: datetime
    commits: int
    branches: int
    tags: int
    expired_commits: int
    lost_refs: tuple[UnrestoredRef, ...]
    missing: int
    missing_listed: tuple[MissingFile, ...]
    orphans: int
    orphan_bytes: int


class AdoptionStatus(msgspec.Struct, frozen=True, kw_only=True):
    """How an adoption goes; `progress` counts files and objects that were looked at."""

    id: str
    done: bool
    progress: int = 0
    error: str | None = None
    error_kind: str | None = None
    result: AdoptionResult | None = None


class OrphanInfo(msgspec.Struct, frozen=True, kw_only=True):
    """An object that nothing refers to; `path` is where it was staged, if that is known."""

    address: str
    size_bytes: int
    mtime: datetime
    path: str


class OrphanPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of them; `after` asks for the next."""

    results: tuple[OrphanInfo, ...]
    total: int
    gc_not_before: datetime
    after: int | None = None


class StorageConfig(msgspec.Struct, frozen=True, kw_only=True):
    """What the server's storage can do."""

    blockstore_type: str
    default_namespace_prefix: str | None = None
    blockstore_namespace_example: str = ""
    pre_sign_support: bool = False
    import_support: bool = False


class VersionConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The server's version: Lakebed's own, and that of the lakeFS whose API it speaks."""

    lakebed_version: str = ""
    version: str = ""
    version_context: str = ""


class ServerInfo(msgspec.Struct, frozen=True, kw_only=True):
    """What a server says about itself."""

    version_config: VersionConfig
    storage_config: StorageConfig


class StorageUse(msgspec.Struct, frozen=True, kw_only=True):
    """What a namespace holds: users' objects, the engine's own files, the bytes of both."""

    objects: int
    files: int
    bytes: int
    complete: bool
    """False if counting took too long: there is more."""
    grace_seconds: float
    """How long after a deletion it is freed."""


class StashInfo(msgspec.Struct, frozen=True, kw_only=True):
    """Changes of a branch, put aside."""

    id: str
    branch: str
    base_commit_id: str
    message: str
    creation_date: int


class UserInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A user."""

    id: str
    creation_date: int = 0


class CurrentUser(msgspec.Struct, frozen=True, kw_only=True):
    """Who is asking."""

    user: UserInfo


class GroupInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A group of users."""

    id: str
    creation_date: int = 0
    description: str = ""


class Statement(msgspec.Struct, frozen=True, kw_only=True):
    """One rule of a policy."""

    effect: str
    action: list[str]
    resource: str


class PolicyInfo(msgspec.Struct, frozen=True, kw_only=True):
    """What somebody may do."""

    id: str
    creation_date: int = 0
    statement: list[Statement]


class AccessKey(msgspec.Struct, frozen=True, kw_only=True):
    """An access key; its secret is shown once, when it is made."""

    access_key_id: str
    creation_date: int = 0
    secret_access_key: str = ""


class CompactionJob(msgspec.Struct, frozen=True, kw_only=True):
    """A job that merges staged layers."""

    id: str
    kind: str
    state: str
    branch: str
    reason: str
    layers: int
    creation_date: int
    failures: int = 0
    worker: str = ""
    error: str = ""


class BranchCompaction(msgspec.Struct, frozen=True, kw_only=True):
    """What of a branch's uncommitted changes is merged and what is not."""

    branch: str
    staging: bool
    sealed_layers: int
    compacted: bool
    changes: int | None = None


class CompactionState(msgspec.Struct, frozen=True, kw_only=True):
    """A repository's jobs, and the branches with the most sealed layers."""

    paused: bool
    sealed_layers: int
    jobs: list[CompactionJob]
    branches: list[BranchCompaction]
    flushed_bytes: int = 0
    written_bytes: int = 0
    epoch: int = 0


class CompactionEpoch(msgspec.Struct, frozen=True, kw_only=True):
    """The epoch of all tokens from now on."""

    epoch: int


class CompactionRetried(msgspec.Struct, frozen=True, kw_only=True):
    """How many jobs are tried again."""

    retried: int


class CompactionStarted(msgspec.Struct, frozen=True, kw_only=True):
    """The job that was asked for."""

    job: CompactionJob | None = None


class GcMark(msgspec.Struct, frozen=True, kw_only=True):
    """A published mark. Times are the engine's, in microseconds."""

    run_id: str
    kind: Literal["clean", "optimized"]
    started_at: int
    marked_at: int
    optimized_since_clean: int = 0
    counts: dict[str, int] = msgspec.field(default_factory=dict)


class GcStorage(msgspec.Struct, frozen=True, kw_only=True):
    """Where a repository's namespace lies."""

    type: str
    url: str
    endpoint: str = ""
    region: str = ""
    path_style: bool | None = None


class GcRunStarted(msgspec.Struct, frozen=True, kw_only=True):
    """A run that has the lease, and the marks it may build on, newest first."""

    run_id: str
    token: int
    repository: str
    uid: str
    namespace: str
    storage: GcStorage
    now: int
    started_at: int
    lease_seconds: float
    grace_seconds: float
    link_seconds: float
    slice_seconds: float
    clock_slack_seconds: float
    marks: list[GcMark]
    reader_grace_seconds: float = GRACE_SECONDS
    """How long the server keeps what left its place; an older one does not say so, and has the default."""


class GcLease(msgspec.Struct, frozen=True, kw_only=True):
    """How long a lease lasts, and engine time."""

    now: int
    expires_at: int


class GcRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run of garbage collection, and the mark that it has published."""

    run_id: str
    kind: str
    holder: str
    state: str
    started_at: int
    ended_at: int | None = None
    outcome: str = ""
    mark: GcMark | None = None
    counts: dict[str, int] = {}


class GcRuns(msgspec.Struct, frozen=True, kw_only=True):
    """The runs that are remembered, and the marks that can be swept, newest first."""

    results: list[GcRun]
    marks: list[GcMark]
    storage: GcStorage


class TaskId(msgspec.Struct, frozen=True, kw_only=True):
    """A task that was started."""

    id: str


class PreparedCommits(msgspec.Struct, frozen=True, kw_only=True):
    """Where the list of commits lies: `roots` is the key of the document that names its files."""

    run_id: str
    roots: str


class PreparedCommitsStatus(msgspec.Struct, frozen=True, kw_only=True):
    """How a preparation goes."""

    task_id: str
    completed: bool
    result: PreparedCommits | None = None
    error: TaskFailure | None = None
    status_code: int | None = None
    error_kind: str | None = None


class PreparedUncommitted(msgspec.Struct, frozen=True, kw_only=True):
    """A page of uncommitted addresses: its key, and how many it has."""

    run_id: str
    key: str
    rows: int
    continuation_token: str | None = None
