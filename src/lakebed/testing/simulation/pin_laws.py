"""What holds of pins: what left a branch after a live pin was made stays, however long its reader takes."""

from lakebed.env.clock import Instant
from lakebed.format.pins import decode_pin
from lakebed.model.branch import Branch, BranchRecord
from lakebed.model.ids import Nonce
from lakebed.model.layers import SegmentLayer, layer_name
from lakebed.refs.keys import PINS_PREFIX
from lakebed.testing.simulation.ledger import Ledger
from lakebed.testing.simulation.record_laws import LawBrokenError
from lakebed.testing.simulation.truth import live_names, retired_names

# Longer than a cleaner takes from its look at pins to what it does: by another clock it may have seen none.
_CLOCK_SECONDS = 120.0


class PinLaws:
    """Judges what is given up while somebody reads."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._lapsed: set[Nonce] = set()
        """Pins that had run out once: renewed or not, nobody has to believe in them any more."""

    def renewed(self, before: bytes | None, value: bytes) -> None:
        """A pin was written."""
        pin = decode_pin(value)
        if before is None:
            is_unbroken = pin.renewed_at == pin.made_at
        else:
            is_unbroken = decode_pin(before).is_live(self._ledger.clock.now())
        if not is_unbroken:
            self._lapsed.add(pin.id)

    def check_gone(self, partition: str, what: str, retired_at: Instant) -> None:
        """Something that left its branch then is given up."""
        clock = self._ledger.clock
        if not clock.has_run_for(_CLOCK_SECONDS):
            return
        rows = self._ledger.truth.partitions.get(partition, {})
        for key, value in rows.items():
            if not key.startswith(PINS_PREFIX):
                continue
            pin = decode_pin(value)
            if pin.id not in self._lapsed and pin.made_at < retired_at and pin.is_live(clock.now()):
                raise LawBrokenError(f"{what} was given up, and {pin} may read it")

    def check_forgotten(self, partition: str, old: BranchRecord, new: BranchRecord) -> None:
        """A record replaced another: its segments stay listed, which keeps their files."""
        listed = {*retired_names(new), *(live_names(new) if isinstance(new, Branch) else ())}
        for retired in old.retired:
            name = layer_name(retired.layer)
            if isinstance(retired.layer, SegmentLayer) and name not in listed:
                self.check_gone(partition, name, retired.at)
