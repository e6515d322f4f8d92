"""What must hold of a branch for a job to be claimed and its result to be installed. Pure.

All of it is checked inside the one swap that changes the branch record. Each part is
needed: exhaustive search of a small model found for each one, left out, a history that
loses an acknowledged write or brings a deleted path back. Refused never means lost: the layers
are still there, or somebody else has already taken care of them.
"""

from collections.abc import Iterator
from enum import StrEnum

from lakebed.env.clock import Instant
from lakebed.model.branch import Branch, BranchRecord, DeletedBranch, Slot
from lakebed.model.compaction import JobKind, Source, Spec, sources_of


class Refusal(StrEnum):
    """Which part of the guard does not hold."""

    INCARNATION = "the branch was deleted, or created again"
    TOKEN = "another attempt holds the slot"  # noqa: S105  a fencing token, not a secret
    SOURCES = "the layers are no longer there in a row"
    COMPACTED = "another compacted tree lies below"
    BASE = "HEAD moved"
    PENDING = "a commit or merge is building on the layers"

    @property
    def is_over(self) -> bool:
        """Whether this can never succeed any more; otherwise the spec may still be carried out later."""
        return self not in {Refusal.TOKEN, Refusal.PENDING}


def claim_refusal(record: BranchRecord | None, spec: Spec, *, token: int, now: Instant) -> Refusal | None:
    """Return why `token` may not take the slot for `spec`; None if it may."""
    refusal = spec_refusal(record, spec, now=now)
    if refusal is None and record is not None and token <= record.last_token:
        return Refusal.TOKEN
    return refusal


def install_refusal(record: BranchRecord | None, spec: Spec, *, token: int, now: Instant) -> Refusal | None:
    """Return why the result of `spec` made under `token` may not be installed; None if it may."""
    return next(install_refusals(record, spec, token=token, now=now), None)


def install_refusals(
    record: BranchRecord | None, spec: Spec, *, token: int, now: Instant
) -> Iterator[Refusal]:
    """Yield every part of the guard that does not hold."""
    if isinstance(record, Branch):
        slot = slot_of(record, spec.kind)
        if record.incarnation == spec.incarnation and (
            slot is None or (slot.token, slot.job) != (token, spec.id)
        ):
            yield Refusal.TOKEN
    yield from _spec_refusals(record, spec, now=now)


def spec_refusal(record: BranchRecord | None, spec: Spec, *, now: Instant) -> Refusal | None:
    """Return what of a spec's assumptions no longer holds; None if all do."""
    return next(_spec_refusals(record, spec, now=now), None)


def _spec_refusals(record: BranchRecord | None, spec: Spec, *, now: Instant) -> Iterator[Refusal]:
    if record is None or isinstance(record, DeletedBranch):
        yield Refusal.INCARNATION
        return
    if record.incarnation != spec.incarnation:
        yield Refusal.INCARNATION
    if record.commit_id != spec.commit_id:
        yield Refusal.BASE
    # A fold neither reads nor writes the tree below: an L2 install beside it does not matter.
    if spec.kind is JobKind.L2 and record.compacted != spec.compacted:
        yield Refusal.COMPACTED
    if place_of(record, spec) is None:
        yield Refusal.SOURCES
    if is_covered(record, spec.kind, spec.sources, now=now):
        yield Refusal.PENDING


def place_of(branch: Branch, spec: Spec) -> int | None:
    """Return where in `sealed` the run of a spec starts; None if it is not there exactly, or may not be taken there.

    Layers do not commute: only neighbours may be merged, and only the oldest ones may go into the tree.
    """
    sources = sources_of(branch.sealed)
    count = len(spec.sources)
    start = sources.index(spec.sources[0]) if spec.sources[0] in sources else len(sources)
    if sources[start : start + count] != spec.sources:
        return None
    return None if spec.kind is JobKind.L2 and start + count != len(sources) else start


def is_covered(branch: Branch, kind: JobKind, sources: tuple[Source, ...], *, now: Instant) -> bool:
    """Return whether a live operation on HEAD builds on the sources, or on the tree that would be replaced."""
    live = [entry for entry in branch.pending.values() if entry.is_live(now)]
    if kind is JobKind.L2:
        return bool(live)
    oldest = sources[-1].seq
    return any(entry.below is None or oldest < entry.below for entry in live)


def slot_of(branch: Branch, kind: JobKind) -> Slot | None:
    """Return the slot for jobs of a kind."""
    return branch.l2_slot if kind is JobKind.L2 else branch.fold_slot
