"""What a verification tells: a `Finding` for each thing that is wrong, and how far it is."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class FindingKind(StrEnum):
    """What is wrong, as a code that programs may rely on. Append only."""

    RECORD_DAMAGED = "record-damaged"
    COMMIT_MISSING = "commit-missing"
    METARANGE_MISSING = "metarange-missing"
    METARANGE_DAMAGED = "metarange-damaged"
    RANGE_MISSING = "range-missing"
    RANGE_DAMAGED = "range-damaged"
    ROWS_DAMAGED = "rows-damaged"
    OBJECT_MISSING = "object-missing"
    OBJECT_SIZE = "object-size"
    OBJECT_DAMAGED = "object-damaged"
    OBJECT_REFUSED = "object-refused"
    UNREADABLE = "unreadable"
    SEGMENT_MISSING = "segment-missing"
    SEGMENT_DAMAGED = "segment-damaged"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What is wrong, where somebody will meet it, and what to do about it."""

    kind: FindingKind
    where: str
    what: str
    remedy: str


@dataclass(slots=True)
class Verified:
    """How much was looked at."""

    branches: int = 0
    tags: int = 0
    commits: int = 0
    trees: int = 0
    ranges: int = 0
    staged: int = 0
    objects: int = 0
    read_bytes: int = 0


Report = Callable[[Finding], None]
"""Takes findings as they come: a lost bucket has as many as there are objects."""

Progress = Callable[[str, int, int | None], None]
"""Told what is looked at, how many are done, and of how many, where that is known."""

_FROM_A_BACKUP: Final = "restore this file from a backup of the storage"

_UPLOAD_AGAIN: Final = (
    "restore the object from a backup; or upload it again, and commit at once with --take-staged: equal content is no "
    "change otherwise, and the lost object stays"
)

_REMEDIES: Final[dict[FindingKind, str]] = {
    FindingKind.RECORD_DAMAGED: "restore the database from a backup, or the refs from a dump",
    FindingKind.COMMIT_MISSING: "restore the refs from a dump, or move or delete the ref that leads here",
    FindingKind.METARANGE_MISSING: _FROM_A_BACKUP,
    FindingKind.METARANGE_DAMAGED: _FROM_A_BACKUP,
    FindingKind.RANGE_MISSING: _FROM_A_BACKUP,
    FindingKind.RANGE_DAMAGED: _FROM_A_BACKUP,
    FindingKind.ROWS_DAMAGED: "restore the database from a backup, or reset the branch",
    FindingKind.OBJECT_MISSING: _UPLOAD_AGAIN,
    FindingKind.OBJECT_SIZE: _UPLOAD_AGAIN,
    FindingKind.OBJECT_DAMAGED: _UPLOAD_AGAIN,
    FindingKind.OBJECT_REFUSED: "add its prefix to the import prefixes of the configuration, or upload it instead",
    FindingKind.SEGMENT_MISSING: _FROM_A_BACKUP,
    FindingKind.SEGMENT_DAMAGED: _FROM_A_BACKUP,
    FindingKind.UNREADABLE: "see that the storage answers, then verify again",
}

assert _REMEDIES.keys() == set(FindingKind)


def finding(kind: FindingKind, where: str, what: str) -> Finding:
    """Return a finding with what usually helps."""
    return Finding(kind=kind, where=where, what=what, remedy=_REMEDIES[kind])
