"""Bounds of numbers on the wire: what is stored has 64 bits, and a date has a calendar."""

from typing import Annotated, TypeAlias

import msgspec

Size: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]

# The last second of the year 9999: a later one cannot be shown as a date.
Seconds: TypeAlias = Annotated[
    int, msgspec.Meta(ge=0, le=253_402_300_799, description="seconds since the Unix epoch")
]

ParentNumber: TypeAlias = Annotated[
    int, msgspec.Meta(ge=0, le=2**31 - 1, description="which parent of a merge commit, from 1; 0 for others")
]

Days: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]
