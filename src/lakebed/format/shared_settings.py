"""The settings that an installation's processes share, as a KV value."""

from collections.abc import Mapping
from typing import Final

from lakebed.format.codec import Codec, Stored


class _Shared(Stored):
    values: dict[str, float]


_SHARED: Final = Codec[_Shared]("shared settings", 1, _Shared)


def encode_shared(values: Mapping[str, float]) -> bytes:
    """Return settings by name as their KV value: equal ones give equal bytes."""
    return _SHARED.seal(_Shared({name: float(values[name]) for name in sorted(values)}))


def decode_shared(data: bytes) -> dict[str, float]:
    """Return what `encode_shared` was given."""
    return _SHARED.open(data).values
