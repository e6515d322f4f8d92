"""`SliceNamer`: the addresses of new objects, `data/<slice>/<object>`. Pure.

A slice is named by reversed time, so that a listing of `data/` begins with the
newest, and what is older than some time is one range of names. Each process
fills a slice of its own (the name ends in chance), for an hour or 50,000 objects:
so listings can be split by slice, and closed slices never change again.

    slice    microseconds until the end of time (12) | random (8)
    object   number within the slice (4) | random (16)

Both names have 20 characters of 0-9a-v. An object's number makes it unique
within its process, chance makes it unique everywhere.
"""

from typing import Final

from lakebed.env.clock import SECOND, Instant
from lakebed.env.ids import IdSource, encode_base32
from lakebed.format.layout import slice_name as slice_name
from lakebed.format.layout import slice_opened as slice_opened
from lakebed.limits import SLICE_OBJECTS, SLICE_OBJECTS_MAX, SLICE_SECONDS

_NUMBER_WIDTH: Final = 4

assert SLICE_OBJECTS <= SLICE_OBJECTS_MAX < 32**_NUMBER_WIDTH


class SliceNamer:
    """Names the objects of one process."""

    def __init__(
        self, ids: IdSource, *, seconds: float = SLICE_SECONDS, objects: int = SLICE_OBJECTS
    ) -> None:
        assert objects <= SLICE_OBJECTS_MAX
        self._ids = ids
        self._seconds = seconds
        self._objects = objects
        self._slice = ""
        self._opened = Instant(0)
        self._count = 0

    def next_address(self, now: Instant) -> str:
        """Return an address that nobody else has and nobody will ever get."""
        if not self._slice or self._is_over(now):
            self._slice = slice_name(now, self._ids.token())
            self._opened = now
            self._count = 0
        name = encode_base32(self._count, width=_NUMBER_WIDTH) + self._ids.token()[_NUMBER_WIDTH:]
        self._count += 1
        return f"data/{self._slice}/{name}"

    def _is_over(self, now: Instant) -> bool:
        # A clock that went back must not keep a slice open for longer than it says.
        age = abs(now - self._opened)
        return self._count >= self._objects or age >= self._seconds * SECOND
