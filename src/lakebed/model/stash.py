"""`Stash`: uncommitted changes put aside, to be laid over a branch again later.

    tentative -> standing -> popped

A tentative stash counts only once the branch record names it: the reset that
emptied the branch and the stash that keeps its changes are the same swap.
"""

from dataclasses import dataclass
from enum import StrEnum

from lakebed.env.clock import Instant
from lakebed.model.ids import BranchName, CommitId, Nonce
from lakebed.model.layers import TokenLayer


class StashState(StrEnum):
    """Where a stash is in its life."""

    TENTATIVE = "tentative"
    STANDING = "standing"
    POPPED = "popped"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stash:
    """The changes of `branch` against `base`, as rows of the token in `layer`."""

    id: Nonce
    branch: BranchName
    base: CommitId
    layer: TokenLayer
    message: str
    state: StashState
    at: Instant
