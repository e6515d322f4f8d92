"""The `Range` header. What is said to one that asks for nothing differs from edge to edge; what it asks for does not."""

import re
from dataclasses import dataclass
from typing import Final

_RANGE: Final = re.compile(r"bytes=(\d{0,19})-(\d{0,19})", re.ASCII)


@dataclass(frozen=True, slots=True)
class RequestedRange:
    """Bytes from `first` to `last`, both included; without `first` the `last` so many, without `last` all that follow."""

    first: int | None
    last: int | None

    @property
    def is_backwards(self) -> bool:
        """Whether it ends before it begins, which makes it no range at all (RFC 9110)."""
        return self.first is not None and self.last is not None and self.last < self.first

    def within(self, size_bytes: int) -> tuple[int, int]:
        """Return where the range begins and ends in an object of that size; not before its beginning if it has nothing of it."""
        if self.first is None:
            assert self.last is not None, "a range says one of the two"
            return max(size_bytes - self.last, 0), size_bytes
        return self.first, size_bytes if self.last is None else min(self.last + 1, size_bytes)


def requested_range(header: str) -> RequestedRange | None:
    """Return what a header asks for; None if it is not one range of bytes.

    >>> requested_range("bytes=-5")
    RequestedRange(first=None, last=5)
    """
    found = _RANGE.fullmatch(header.strip())
    if found is None or not any(found.groups()):
        return None
    first, last = (int(text) if text else None for text in found.groups())
    return RequestedRange(first, last)
