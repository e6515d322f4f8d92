"""`Branch`: the single truth about a branch, changed only by one-key swaps.

Whatever an operation on a branch depends on sits in this record, so that its
last step can check everything and change everything in one atomic write.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TypeAlias

from lakebed.env.clock import Instant, after
from lakebed.limits import PENDING_TIMEOUT_SECONDS
from lakebed.model.diffs import ChangeCounts
from lakebed.model.ids import BranchName, CommitId, MetarangeId, Nonce, StagingToken
from lakebed.model.layers import Layer, RetiredLayer, RetiredTree


@dataclass(frozen=True, slots=True, kw_only=True)
class Pending:
    """An operation that is building a new HEAD.

    While the entry stands, the files that carry its nonce are safe, installs
    stay off the layers below it, and the commits it read are not collected.
    """

    commits: tuple[CommitId, ...]
    renewed_at: Instant
    below: int | None = None
    """Layers with a smaller `seq` are what it builds on; None, from an older lakebed: any may be."""
    since: Instant | None = None
    """When the operation came; None, from an older lakebed: nobody knows."""
    lost_seconds: float = 0.0
    """How long the last try took that it has lost to another; 0: it has lost none."""

    def is_live(self, now: Instant) -> bool:
        """Return whether its owner is not taken for dead."""
        return self.renewed_at >= after(now, -PENDING_TIMEOUT_SECONDS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """The one compaction of its kind that may install its result: the holder of `token`."""

    job: str
    token: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Branch:
    """A live branch.

    From the top: `staging_token` (rows still being written), `sealed` (newest
    first), then `compacted`, or the tree of `commit_id` where there is none.
    """

    name: BranchName
    incarnation: Nonce
    commit_id: CommitId
    staging_token: StagingToken | None = None
    sealed: tuple[Layer, ...] = ()
    compacted: MetarangeId | None = None
    next_seq: int = 1
    last_token: int = 0
    min_era: int = 0
    l2_slot: Slot | None = None
    fold_slot: Slot | None = None
    pending: Mapping[Nonce, Pending] = field(default_factory=dict)
    retired: tuple[RetiredLayer, ...] = ()
    stashes: tuple[Nonce, ...] = ()
    """Stashes whose reset has landed here and whose own record does not say so yet."""
    hidden: bool = False
    tentative: bool = False
    created_by: Nonce = Nonce("")
    updated_at: Instant = Instant(0)
    compacted_counts: ChangeCounts | None = None
    """How `compacted` differs from the tree of `commit_id`, so that a commit need not compare them."""
    retired_trees: tuple[RetiredTree, ...] = ()
    parked: bool = False
    """Whether compaction has given up on some of its layers: it gets no shorter by itself, so writers may pile up more."""
    indexed: bool = False
    """Whether an entry of the `todo` index names this branch: see `refs/todo.py`."""

    def __post_init__(self) -> None:
        seqs = [layer.seq for layer in self.sealed]
        assert all(a > b for a, b in pairwise(seqs)), "sealed layers run newest first"
        assert not seqs or seqs[0] < self.next_seq, "next_seq is above every layer"

    def with_tree_retired(self, now: Instant) -> tuple[RetiredTree, ...]:
        """Return what `retired_trees` is once the compacted tree, if there is one, has left."""
        if self.compacted is None:
            return self.retired_trees
        return (*self.retired_trees, RetiredTree(tree=self.compacted, at=now))


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletedBranch:
    """What stays of a deleted branch until its retired layers and trees are freed, and for a grace after that."""

    name: BranchName
    next_seq: int
    last_token: int
    min_era: int
    retired: tuple[RetiredLayer, ...]
    updated_at: Instant
    retired_trees: tuple[RetiredTree, ...] = ()
    indexed: bool = False


BranchRecord: TypeAlias = Branch | DeletedBranch
