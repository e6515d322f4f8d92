"""What holds of segment files: nothing that a record refers to is deleted, nor what a reader within the grace may read."""

from lakebed.env.clock import after
from lakebed.errors import LakebedError
from lakebed.limits import GRACE_SECONDS
from lakebed.model.branch import Branch
from lakebed.model.layers import Layer, SegmentLayer
from lakebed.model.segments import segment_key
from lakebed.model.stash import StashState
from lakebed.testing.simulation.ledger import Ledger
from lakebed.testing.simulation.network import Delivery
from lakebed.testing.simulation.record_laws import LawBrokenError

_KEPT = frozenset({StashState.STANDING, StashState.POPPING})


class FileLaws:
    """An `Observer` that judges deletions."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._truth = ledger.truth

    def arrived(self, delivery: Delivery, what: str, *, write: bool, error: LakebedError | None) -> None:
        verb, *keys = what.split(" ")
        if verb != "delete" or error is not None or not write:
            return
        for repo in self._truth.live_repositories():
            for layer, why in self._needed(repo.partition):
                if isinstance(layer, SegmentLayer) and segment_key(layer.id) in keys:
                    raise LawBrokenError(f"{layer.id} was deleted by {delivery.process}, {why}")

    def _needed(self, partition: str) -> list[tuple[Layer, str]]:
        now = self._ledger.clock.latest()
        needed: list[tuple[Layer, str]] = []
        for record in self._truth.branches(partition):
            if isinstance(record, Branch):
                needed += [(layer, f"a layer of {record.name}") for layer in record.sealed]
            needed += [
                (retired.layer, f"retired from {record.name} within a grace")
                for retired in record.retired
                if after(retired.at, GRACE_SECONDS) >= now
            ]
        for stash in self._truth.stashes(partition):
            if stash.state in _KEPT:
                needed += [(layer, f"of stash {stash.id}") for layer in stash.layers]
        return needed
