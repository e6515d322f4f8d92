"""Requests that stage segments, as KV values."""

from typing import Final

from lakebed.env.clock import Instant
from lakebed.format.codec import Codec, Stored
from lakebed.model.ids import Nonce
from lakebed.model.segment_calls import SegmentCall


class _SegmentCall(Stored):
    owner: str
    noted_at: Instant
    segment: str
    entries: int
    tombstones: int


_CALL: Final = Codec[_SegmentCall]("segment call", 1, _SegmentCall)


def encode_segment_call(call: SegmentCall) -> bytes:
    """Return the record of a request as its KV value."""
    return _CALL.seal(_SegmentCall(call.owner, call.noted_at, call.segment, call.entries, call.tombstones))


def decode_segment_call(data: bytes) -> SegmentCall:
    """Return what `encode_segment_call` was given, or raise `CorruptError`."""
    s = _CALL.open(data)
    return SegmentCall(
        owner=Nonce(s.owner),
        noted_at=s.noted_at,
        segment=s.segment,
        entries=s.entries,
        tombstones=s.tombstones,
    )
