"""Notes of zero-copy copies, as KV values: when the copy was made."""

from typing import Final

from lakebed.env.clock import Instant
from lakebed.format.codec import Codec, Stored


class _Copy(Stored):
    at: Instant


_COPY: Final = Codec[_Copy]("copy", 1, _Copy)


def encode_copy(at: Instant) -> bytes:
    """Return the note of a copy made at `at`."""
    return _COPY.seal(_Copy(at))


def decode_copy(data: bytes) -> Instant:
    """Return when the copy was made, or raise `CorruptError`."""
    return _COPY.open(data).at
