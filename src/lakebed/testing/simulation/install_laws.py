"""What holds of compaction: tokens that are given out once, installs that leave commits alone, counts that are true."""

from lakebed.env.clock import after
from lakebed.limits import PENDING_TIMEOUT_SECONDS
from lakebed.model.branch import Branch, Pending
from lakebed.model.diffs import ChangeCounts
from lakebed.model.layers import Layer, SegmentLayer
from lakebed.model.segments import parse_segment_id
from lakebed.testing.simulation.ledger import Ledger
from lakebed.testing.simulation.record_laws import LawBrokenError, is_fold
from lakebed.testing.simulation.truth import View

# Longer than a request takes: who decided just before the clock was set may have decided otherwise.
_CLOCK_SECONDS = 15.0


class InstallLaws:
    """Judges what compaction does to branch records. That it changes nothing for a reader is judged for all steps."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._truth = ledger.truth
        self._claimed: set[tuple[str, int]] = set()
        """Every incarnation and token that ever held a slot."""

    def check(self, partition: str, old: Branch, new: Branch) -> None:
        """A record replaced another of the same branch."""
        for was, now in ((old.fold_slot, new.fold_slot), (old.l2_slot, new.l2_slot)):
            if now is not None and now != was:
                self._check_claim(old, new, now.token)
        folds = [layer for layer in new.sealed if is_fold(layer) and layer not in old.sealed]
        for layer in folds:
            self._ledger.meet("fold installed")
            self._check_owner(new, layer)
        if new.compacted is not None and new.compacted != old.compacted:
            self._ledger.meet("tree installed")
            self._check_counts(partition, new)
        if new.commit_id == old.commit_id and (folds or new.compacted not in {None, old.compacted}):
            taken = [layer.seq for layer in old.sealed if layer not in new.sealed]
            for pending in old.pending.values():
                self._check_pending(pending, min(taken, default=0), is_tree=not folds)

    def _check_claim(self, old: Branch, new: Branch, token: int) -> None:
        if token <= old.last_token or new.last_token != token:
            raise LawBrokenError(f"token {token} took a slot of {new.name} after {old.last_token}")
        if (new.incarnation, token) in self._claimed:
            raise LawBrokenError(f"token {token} was given out twice for {new.name}")
        self._claimed.add((new.incarnation, token))

    def _check_owner(self, branch: Branch, layer: Layer) -> None:
        assert isinstance(layer, SegmentLayer)
        if parse_segment_id(layer.id).owner != branch.incarnation:
            raise LawBrokenError(f"{layer.id} is a namesake's, and was installed on {branch.name}")

    def _check_counts(self, partition: str, branch: Branch) -> None:
        """A commit relies on the counts, and looks at nothing else."""
        assert branch.compacted is not None
        found = _counts(
            self._truth.content(partition, branch.commit_id), self._truth.tree(partition, branch.compacted)
        )
        if branch.compacted_counts != found:
            raise LawBrokenError(
                f"the tree of {branch.name} differs by {found} and says {branch.compacted_counts}"
            )

    def _check_pending(self, pending: Pending, oldest: int, *, is_tree: bool) -> None:
        """Nobody takes away what a live commit builds on: it would start over, and perhaps for ever."""
        clock = self._ledger.clock
        age = (pending.renewed_at, clock.now())
        if not clock.has_run_for(_CLOCK_SECONDS) or not (
            after(age[1], -PENDING_TIMEOUT_SECONDS / 4) <= age[0] <= age[1]
        ):
            return
        if is_tree or pending.below is None or oldest < pending.below:
            raise LawBrokenError(f"an install took away what a live operation builds on: {pending}")


def _counts(base: View, tree: View) -> ChangeCounts:
    return ChangeCounts(
        added=len(tree.keys() - base.keys()),
        changed=sum(path in base and base[path] != checksum for path, checksum in tree.items()),
        removed=len(base.keys() - tree.keys()),
    )
