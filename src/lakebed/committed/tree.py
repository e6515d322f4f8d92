"""`Tree`: a metarange that has been read, ready to be searched."""

from bisect import bisect_left
from dataclasses import dataclass, field

from lakebed.format.metaranges import RangeInfo
from lakebed.model.ids import MetarangeId


@dataclass(frozen=True, slots=True)
class Tree:
    """The ranges of one tree, in key order."""

    id: MetarangeId
    ranges: tuple[RangeInfo, ...]
    max_keys: list[bytes] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "max_keys", [r.max_key.encode() for r in self.ranges])

    @property
    def count(self) -> int:
        return sum(r.count for r in self.ranges)

    def seek(self, key: bytes, *, start: int = 0) -> int:
        """Return the first range, from `start` on, that may hold `key` or a greater one."""
        return bisect_left(self.max_keys, key, start)

    def is_last(self, index: int) -> bool:
        return index == len(self.ranges) - 1
