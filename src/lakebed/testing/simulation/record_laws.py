"""What must hold between a branch's record and the one that replaces it, whoever did it and why. Pure."""

from collections.abc import Callable

from lakebed.env.clock import Instant, after
from lakebed.limits import GRACE_SECONDS, PENDING_MAX
from lakebed.model.branch import Branch, BranchRecord, DeletedBranch
from lakebed.model.ids import StagingToken
from lakebed.model.layers import Layer, SegmentLayer, TokenLayer, layer_name
from lakebed.model.segments import parse_segment_id
from lakebed.testing.simulation.truth import live_names, retired_names


class LawBrokenError(AssertionError):
    """The engine did what it must never do."""


def check_successor(
    old: BranchRecord | None, new: BranchRecord, *, now: Instant, noted: Callable[[StagingToken], bool]
) -> None:
    """Raise `LawBrokenError` if `new` may not follow `old`. `noted` says whether the cleaner has a note of a token."""
    if isinstance(new, Branch):
        _require(len(new.pending) <= PENDING_MAX, f"{len(new.pending)} pending operations")
        names = live_names(new)
        _require(len(set(names)) == len(names), "something is a layer twice")
        _require(not set(names) & set(retired_names(new)), "something is both a layer and retired")
    if old is None:
        return
    _require(new.updated_at > old.updated_at, f"updated_at went from {old.updated_at} to {new.updated_at}")
    _require(new.next_seq >= old.next_seq, f"next_seq went from {old.next_seq} to {new.next_seq}")
    _require(new.last_token >= old.last_token, "last_token went back")
    _require(new.min_era >= old.min_era, "min_era went back")
    _check_tokens(old, new, now, noted)
    if isinstance(old, Branch) and isinstance(new, Branch):
        _require(old.incarnation == new.incarnation, "a live branch was replaced by a namesake")
        _check_layers(old, new)
    if isinstance(new, DeletedBranch):
        _require(not isinstance(old, DeletedBranch) or new.next_seq == old.next_seq, "a tombstone counted on")


def _check_tokens(
    old: BranchRecord, new: BranchRecord, now: Instant, noted: Callable[[StagingToken], bool]
) -> None:
    """A layer leaves only through `retired`, and that only after the grace; a token sooner for the cleaner's notes."""
    live = set(live_names(new)) if isinstance(new, Branch) else set()
    known = live | set(retired_names(new))
    if isinstance(old, Branch):
        for name in live_names(old):
            _require(name in known, f"layer {name} left its branch without being retired")
    for retired in old.retired:
        layer = retired.layer
        if layer_name(layer) not in known:
            done = after(retired.at, GRACE_SECONDS) < now
            done = done or (isinstance(layer, TokenLayer) and noted(layer.token))
            _require(done, f"layer {layer_name(layer)} was forgotten too early")


def _check_layers(old: Branch, new: Branch) -> None:
    """Layers keep their order and their numbers, and new ones come on top."""
    before, now = live_names(old), live_names(new)
    # What a fold has made stands where its sources stood.
    folded = {layer_name(x): x.seq for x in new.sealed if is_fold(x) and layer_name(x) not in before}
    now = [name for name in now if name not in folded]
    kept = [name for name in now if name in before]
    _require(kept == [name for name in before if name in now], "layers changed places")
    _require(now[len(now) - len(kept) :] == kept, "a layer was put below others")
    seqs = _seqs(old)
    for name, seq in folded.items():
        _require(seq in seqs.values(), f"fold {name} has no source's number")
        _require(
            seq not in {seqs[each] for each in kept if each in seqs},
            f"fold {name} took a place that is taken",
        )
    for name, seq in _seqs(new).items():
        if name in folded:
            continue
        _require(seqs.get(name, seq) == seq, f"layer {name} was numbered again")
        _require(name in seqs or seq >= old.next_seq, f"layer {name} got a number that was used before")


def is_fold(layer: Layer) -> bool:
    """Return whether a layer was made by compaction."""
    return isinstance(layer, SegmentLayer) and parse_segment_id(layer.id).token > 0


def _seqs(branch: Branch) -> dict[str, int]:
    return {layer_name(layer): layer.seq for layer in branch.sealed}


def _require(held: bool, message: str) -> None:
    if not held:
        raise LawBrokenError(message)
