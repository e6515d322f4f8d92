"""`SegmentCall`: a request that stages a segment, noted so that a repeat stages nothing more."""

from dataclasses import dataclass

from lakebed.env.clock import Instant
from lakebed.model.ids import Nonce


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentCall:
    """One request with an id, on one branch, with one set of rows."""

    owner: Nonce
    """Names the request, the branch and the rows. The segment carries it in its name."""
    noted_at: Instant
    """Engine time, before anything was staged."""
    segment: str = ""
    """The id of the segment that was staged; empty until the request has noted that."""
    entries: int = 0
    tombstones: int = 0
