"""The record of a pin as its KV value."""

from typing import Final

from lakebed.env.clock import Instant
from lakebed.format.codec import Codec, Stored
from lakebed.model.ids import Nonce
from lakebed.model.pins import Pin


class _Pin(Stored):
    id: Nonce
    reason: str
    made_at: Instant
    renewed_at: Instant


_PIN: Final = Codec[_Pin]("pin", 1, _Pin)


def encode_pin(pin: Pin) -> bytes:
    """Return a pin as its KV value."""
    return _PIN.seal(_Pin(pin.id, pin.reason, pin.made_at, pin.renewed_at))


def decode_pin(data: bytes) -> Pin:
    """Return what `encode_pin` was given.

    Raises:
        CorruptError: not bytes that it returned, or those of a newer version.
    """
    s = _PIN.open(data)
    return Pin(id=s.id, reason=s.reason, made_at=s.made_at, renewed_at=s.renewed_at)
