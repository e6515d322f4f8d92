"""`Repository` and the states of its record.

The record `repos/<name>` is the only truth about whether a repository exists:

    absent or GoneRepository -> CreatingRepository -> Repository -> DeletingRepository -> GoneRepository
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from lakebed.env.clock import Instant
from lakebed.model.ids import BranchName, RepoName, RepoUid, StagingToken


@dataclass(frozen=True, slots=True, kw_only=True)
class Repository:
    """A live repository."""

    name: RepoName
    uid: RepoUid
    namespace: str
    default_branch: BranchName
    created_at: Instant
    read_only: bool = False
    bare: bool = False
    generation: int = 0
    """Of its ownership of the namespace: 0 for one that was created, more for one that was adopted."""
    taken_over_by: str = ""
    """The later owner of the namespace, for people. Then this installation only reads."""
    gc_not_before: Instant = Instant(0)
    """Nothing is collected before: an adopted namespace keeps what nothing refers to for some days."""

    @property
    def partition(self) -> str:
        """The KV partition of everything but the record itself and staged rows."""
        return f"{self.name}-{self.uid}"


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatingRepository:
    """A name and a namespace somebody is trying to take; given up after a while."""

    name: RepoName
    uid: RepoUid
    namespace: str
    since: Instant
    adopting: bool = False
    """Whether the namespace holds a repository whose database is lost: see `catalog/adoption`."""

    @property
    def partition(self) -> str:
        """The partition that the repository will have."""
        return f"{self.name}-{self.uid}"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletingRepository:
    """No longer exists for anyone since `at`; its clean-up entry is being written."""

    name: RepoName
    uid: RepoUid
    namespace: str
    delete_data: bool
    at: Instant


@dataclass(frozen=True, slots=True, kw_only=True)
class GoneRepository:
    """What stays of a deleted repository: its key's version counter."""

    name: RepoName


RepositoryRecord: TypeAlias = Repository | CreatingRepository | DeletingRepository | GoneRepository


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanupEntry:
    """A deleted or given-up repository whose leftovers the cleaner removes."""

    name: RepoName
    uid: RepoUid
    namespace: str
    delete_data: bool
    marked_at: Instant | None = None
    """For a late entry: when the mark of the deletion was written. All that is left to free is what was uploaded late."""

    @property
    def partition(self) -> str:
        """The partition the repository had."""
        return f"{self.name}-{self.uid}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenCleanup:
    """A staging token that left its branch for good and whose rows the cleaner drops."""

    token: StagingToken
    partition: str
    """The repository's partition, where the branch's record says whether the token is still in use."""
    branch: BranchName
    retired_at: Instant | None = None
    """When it left the branch. Entries of an older lakebed do not say so: they are due a usual grace after."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchProtection:
    """Patterns of branch names and what they block: `staging_write`, `commit`."""

    rules: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
