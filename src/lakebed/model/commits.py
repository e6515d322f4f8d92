"""`Commit` and `Tag`."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from lakebed.env.clock import Instant
from lakebed.model.ids import CommitId, MetarangeId, Nonce, TagName


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """A tree and how it came to be.

    `date` (Unix seconds) is the client's and may be anything; `created_at` is the
    engine's, and is what retention counts from. `nonce` names the attempt, so
    that a commit that never became anybody's HEAD can be told from one that did.
    """

    id: CommitId
    committer: str
    message: str
    tree: MetarangeId
    date: int
    created_at: Instant
    parents: tuple[CommitId, ...]
    generation: int
    nonce: Nonce
    metadata: Mapping[str, str] = field(default_factory=dict)
    condemned_by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tag:
    """A name for a commit that does not move. `tentative` ones are not visible yet."""

    name: TagName
    commit_id: CommitId
    tentative: bool = False
    created_by: Nonce = Nonce("")


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletedTag:
    """What an older lakebed left of a deleted tag. The cleaner removes it."""

    name: TagName


TagRecord: TypeAlias = Tag | DeletedTag
