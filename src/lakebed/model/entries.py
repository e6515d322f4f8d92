"""`Entry`, `Tombstone` and `Change`.

A deletion is a value of its own type. It is never spelled `None`: a missing
path, a deleted path and an empty object are three different facts.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

import msgspec

from lakebed.env.clock import Instant
from lakebed.model.ids import Path

EXTERNAL_MARK: Final = "://"
"""What addresses outside the namespace have, and no other."""
CONTENT_TYPE_DEFAULT: Final = "application/octet-stream"
"""Of an object for which no type was given."""


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One object, as seen at one moment of one branch.

    `address` is `data/<slice>/<object>` for an object inside the repository's
    namespace, and a full URI (`s3://…`, `local://…`) for one outside.
    Two entries with equal size, checksum, metadata and content type are the
    same content to a user, wherever in the namespace they lie and whenever they were written.

    A struct, because one is made for every read: a frozen dataclass takes ten times as long.
    """

    path: Path
    address: str
    checksum: str
    size_bytes: int
    mtime: Instant
    content_type: str = ""
    """Empty for none, which edges show as `CONTENT_TYPE_DEFAULT`."""
    metadata: Mapping[str, str] = msgspec.field(default_factory=dict)

    @property
    def is_external(self) -> bool:
        return EXTERNAL_MARK in self.address


@dataclass(frozen=True, slots=True, kw_only=True)
class Tombstone:
    """`path` was deleted here; older values of it must stay hidden."""

    path: Path


Change: TypeAlias = Entry | Tombstone
