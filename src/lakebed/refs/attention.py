"""What maintenance has to do on a branch, and when. Pure: record in, record out.

A branch needs attention while its record holds something that only maintenance takes away: retired layers and trees, names of
stashes, pending operations (their process may have died), a tentative creation, or the fact that it was deleted.
"""

from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

from lakebed.env.clock import Instant, after
from lakebed.limits import PENDING_TIMEOUT_SECONDS, RETIRED_LISTED, RETIRED_URGENT
from lakebed.model.branch import Branch, BranchRecord, DeletedBranch
from lakebed.model.ids import BranchName, Nonce, StagingToken
from lakebed.model.layers import Layer, RetiredLayer, TokenLayer, layer_name
from lakebed.model.stash import Stash, StashState

_AT_ONCE = Instant(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What else in a repository decides on its branches. It must be read after their records.

    Read after a record, it says of each stash whose layers are retired there: popped by now, or popping still.
    """

    stashes: tuple[Stash, ...]
    pinned: Instant | None
    """When the oldest live pin was made."""
    grace_seconds: float

    def popping_layers(self) -> AbstractSet[str]:
        return {layer_name(layer) for stash in self._popping() for layer in stash.layers}

    def popping_branches(self) -> AbstractSet[BranchName]:
        return {stash.branch for stash in self._popping()}

    def tentative(self) -> AbstractSet[Nonce]:
        return {stash.id for stash in self.stashes if stash.state is StashState.TENTATIVE}

    def kept_tokens(self) -> AbstractSet[StagingToken]:
        """Return the tokens that a stash may still need."""
        kept = (stash for stash in self.stashes if stash.state is not StashState.POPPED)
        return tokens_among(layer for stash in kept for layer in stash.layers)

    def targets_of(self, token: StagingToken) -> AbstractSet[BranchName]:
        """Return the branches that a stash with this token was or is to be laid over."""
        return {stash.branch for stash in self.stashes if token in tokens_among(stash.layers)}

    def is_over(self, at: Instant, now: Instant) -> bool:
        """Return whether the grace of what was retired at `at` is over; what went before a pin was made, its reader has not seen."""
        return after(at, self.grace_seconds) < now and (self.pinned is None or at < self.pinned)

    def _popping(self) -> list[Stash]:
        return [stash for stash in self.stashes if stash.state is StashState.POPPING]


def needs_attention(record: BranchRecord) -> bool:
    """Return whether maintenance has, or will have, something to do on this branch."""
    if isinstance(record, DeletedBranch):
        return True
    return bool(
        record.retired or record.retired_trees or record.pending or record.stashes or record.tentative
    )


def became_urgent(old: BranchRecord | None, new: BranchRecord) -> bool:
    """Return whether the record lists so many retired layers more than `old` that maintenance is told again."""
    before = len(old.retired) if old is not None else 0
    return len(new.retired) // RETIRED_URGENT > before // RETIRED_URGENT


def due_at(record: BranchRecord, grace_seconds: float) -> Instant:
    """Return when maintenance can do the next thing on a branch that needs attention."""
    if len(_listed_tokens(record)) > RETIRED_LISTED:
        return _AT_ONCE
    left = [*(layer.at for layer in record.retired), *(tree.at for tree in record.retired_trees)]
    times = [after(at, grace_seconds) for at in left]
    if isinstance(record, DeletedBranch):
        return min(times) if times else after(record.updated_at, grace_seconds)
    if record.tentative or record.stashes:
        return _AT_ONCE
    times += [after(entry.renewed_at, PENDING_TIMEOUT_SECONDS) for entry in record.pending.values()]
    return min(times)


def drained(record: BranchRecord, look: Look, now: Instant) -> tuple[BranchRecord, tuple[RetiredLayer, ...]]:
    """Return the record without what is over, or itself if nothing is, and the retired layers that leave it.

    Layers leave a grace after they were retired; tokens beyond what the record may list leave sooner, for clean-up entries.
    """
    surplus = _listed_tokens(record)[:-RETIRED_LISTED]
    popping = look.popping_layers()
    leaving = tuple(
        retired
        for retired in record.retired
        if (retired in surplus or look.is_over(retired.at, now)) and layer_name(retired.layer) not in popping
    )
    kept = tuple(retired for retired in record.retired if retired not in leaving)
    trees = tuple(r for r in record.retired_trees if not look.is_over(r.at, now))
    left: BranchRecord = replace(record, retired=kept, retired_trees=trees)
    if isinstance(left, Branch):
        tentative = look.tentative()
        left = replace(
            left,
            pending={nonce: entry for nonce, entry in left.pending.items() if entry.is_live(now)},
            stashes=tuple(stash for stash in left.stashes if stash in tentative),
        )
    return (record if left == record else left), leaving


def may_go(record: BranchRecord, look: Look, now: Instant) -> bool:
    """Return whether the record is a tombstone that nothing needs any more."""
    return (
        isinstance(record, DeletedBranch)
        and not record.retired
        and not record.retired_trees
        and record.name not in look.popping_branches()
        and after(record.updated_at, look.grace_seconds) < now
    )


def tokens_among(layers: Iterable[Layer]) -> frozenset[StagingToken]:
    """Return the tokens of those layers that are tokens."""
    return frozenset(layer.token for layer in layers if isinstance(layer, TokenLayer))


def _listed_tokens(record: BranchRecord) -> list[RetiredLayer]:
    return [retired for retired in record.retired if isinstance(retired.layer, TokenLayer)]
