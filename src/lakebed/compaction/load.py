"""`Load`: how much lies in a layer or a run of them, which is all that sensor and planner look at."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from lakebed.model.ids import StagingToken
from lakebed.model.layers import Layer, SegmentLayer


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """Entries, tombstones and bytes. `entries` does not count tombstones."""

    entries: int = 0
    tombstones: int = 0
    bytes: int = 0

    @property
    def rows(self) -> int:
        return self.entries + self.tombstones

    def __add__(self, other: "Load") -> "Load":
        return Load(
            entries=self.entries + other.entries,
            tombstones=self.tombstones + other.tombstones,
            bytes=self.bytes + other.bytes,
        )


Loads = Mapping[StagingToken, Load]
"""What is known of tokens, whose layers carry no statistics. One that is not there counts nothing."""


def load_of(layer: Layer, loads: Loads) -> Load:
    """Return the load of one layer."""
    if isinstance(layer, SegmentLayer):
        return Load(entries=layer.entries, tombstones=layer.tombstones, bytes=layer.bytes)
    return loads.get(layer.token, Load())


def total_load(layers: Iterable[Layer], loads: Loads) -> Load:
    """Return the load of several layers."""
    return sum((load_of(layer, loads) for layer in layers), Load())
