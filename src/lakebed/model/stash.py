"""`Stash`: uncommitted changes put aside, to be laid over a branch again later.

    tentative -> standing -> popping -> popped
              -> dropped  -> dropped
                             popping -> standing, if its branch went before it was laid there

A tentative stash counts only once the branch record names it: the reset that
emptied the branch and the stash that keeps its changes are the same swap.
"""

from dataclasses import dataclass
from enum import StrEnum

from lakebed.env.clock import Instant
from lakebed.model.ids import BranchName, CommitId, Nonce
from lakebed.model.layers import Layer


class StashState(StrEnum):
    """Where a stash is in its life."""

    TENTATIVE = "tentative"
    STANDING = "standing"
    POPPING = "popping"
    """On its way to a branch; whether it is there, the branch knows."""
    POPPED = "popped"
    DROPPED = "dropped"
    """Never completed, or given up by a user at `at`; what it holds is freed after a grace."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stash:
    """The changes of `branch` against `base`, as one layer; if they are more than one may hold, as several.

    From `popping` on, `branch` is the one it goes to, and `incarnation` that branch's. No path is in two of the
    layers, so their order does not matter.
    """

    id: Nonce
    branch: BranchName
    base: CommitId
    layer: Layer
    message: str
    state: StashState
    at: Instant
    operation: Nonce = Nonce("")
    """The operation that makes it, as the branch's `pending` knows it."""
    incarnation: Nonce = Nonce("")
    more: tuple[Layer, ...] = ()

    @property
    def layers(self) -> tuple[Layer, ...]:
        """All of them."""
        return (self.layer, *self.more)
