"""`DiffType` and the counts of a diff."""

from dataclasses import dataclass
from enum import StrEnum


class DiffType(StrEnum):
    """How a path differs, seen from the left to the right."""

    ADDED = "added"
    REMOVED = "removed"
    CHANGED = "changed"
    CONFLICT = "conflict"
    PREFIX_CHANGED = "prefix_changed"


class MergeStrategy(StrEnum):
    """Who wins where both sides changed a path differently."""

    NONE = ""
    DEST_WINS = "dest-wins"
    SOURCE_WINS = "source-wins"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeCounts:
    """How many paths a new tree adds, changes and removes against the one it was made from."""

    added: int = 0
    changed: int = 0
    removed: int = 0

    @property
    def total(self) -> int:
        return self.added + self.changed + self.removed

    def __add__(self, other: "ChangeCounts") -> "ChangeCounts":
        return ChangeCounts(
            added=self.added + other.added,
            changed=self.changed + other.changed,
            removed=self.removed + other.removed,
        )

    def __sub__(self, other: "ChangeCounts") -> "ChangeCounts":
        return ChangeCounts(
            added=self.added - other.added,
            changed=self.changed - other.changed,
            removed=self.removed - other.removed,
        )
