"""`Pin`: somebody reads a repository for long, and what leaves its branches meanwhile stays."""

from dataclasses import dataclass

from lakebed.env.clock import Instant, after
from lakebed.limits import PIN_SECONDS
from lakebed.model.ids import Nonce


@dataclass(frozen=True, slots=True, kw_only=True)
class Pin:
    """A reader that began at `made_at`, and was alive at `renewed_at`. Its owner is dead when that is long ago."""

    id: Nonce
    reason: str
    made_at: Instant
    renewed_at: Instant

    def is_live(self, now: Instant) -> bool:
        """Return whether its owner is not taken for dead."""
        return self.renewed_at >= after(now, -PIN_SECONDS)
