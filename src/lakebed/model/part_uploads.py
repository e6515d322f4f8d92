"""`PartUpload`: an object that a client of the S3 endpoint sends in parts, and the parts that have arrived."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from lakebed.env.clock import Instant
from lakebed.model.ids import BranchName, Path

PARTS_KEY: Final = "::lakebed::parts"
"""Under this name an entry's metadata says how large the parts were that its object was sent in."""


class PartUploadState(StrEnum):
    """How far an upload is. An aborted one only waits to be removed."""

    OPEN = "open"
    """Takes parts."""
    COMPLETING = "completing"
    """Its list of parts is fixed; the store may have made the object."""
    STAGING = "staging"
    """A call has claimed it and stages the entry."""
    COMPLETED = "completed"
    ABORTED = "aborted"


@dataclass(frozen=True, slots=True, kw_only=True)
class PartUpload:
    """One upload."""

    id: str
    branch: BranchName
    path: Path
    address: str
    """Where the object goes."""
    store_upload: str
    """The store's own name for it."""
    initiator: str
    created_at: Instant
    content_type: str
    metadata: Mapping[str, str] = field(default_factory=dict)
    state: PartUploadState = PartUploadState.OPEN
    checksum: str = ""
    """The ETag of the object, from the moment its list of parts is fixed."""
    completed_at: Instant = Instant(0)
    """When it was completed, or claimed by the call that stages it; 0 until then, or by an older lakebed."""
    claimed_by: str = ""
    """The nonce of the call that claimed it: it alone may stage the entry."""

    @property
    def key(self) -> str:
        """As S3 clients name it: the branch and the path."""
        return f"{self.branch}/{self.path}"

    @property
    def is_under_way(self) -> bool:
        """Whether it can still be completed for the first time, or aborted."""
        return self.state in (PartUploadState.OPEN, PartUploadState.COMPLETING)


@dataclass(frozen=True, slots=True, kw_only=True)
class UploadedPart:
    """One part."""

    number: int
    md5: str
    size_bytes: int
    store_etag: str
    uploaded_at: Instant


def pack_parts(sizes: Iterable[int]) -> str:
    """Return the sizes of an object's parts as one short text: equal neighbours are counted."""
    runs: list[list[int]] = []
    for size in sizes:
        if runs and runs[-1][0] == size:
            runs[-1][1] += 1
        else:
            runs.append([size, 1])
    return ",".join(f"{size}x{count}" if count > 1 else str(size) for size, count in runs)


def unpack_parts(text: str) -> list[int]:
    """Return what `pack_parts` was given; nothing for what it never returned."""
    sizes: list[int] = []
    for run in text.split(","):
        size, _, count = run.partition("x")
        if not size.isdigit() or (count and not count.isdigit()):
            return []
        sizes += [int(size)] * int(count or "1")
    return sizes
