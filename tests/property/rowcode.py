"""The same questions answered row by row, over dicts: what the block code is compared with.

A tree is a dict from path to `Entry`; a run of changes is a dict from path to
`Entry` or `Tombstone`.
"""

from collections.abc import Mapping, Sequence

from lakebed.format.identity import entry_identity
from lakebed.model.diffs import ChangeCounts, DiffType, MergeStrategy
from lakebed.model.entries import Change, Entry, Tombstone

Rows = Mapping[str, Entry]
Changes = Mapping[str, Change]


def newest_wins(runs: Sequence[Changes]) -> dict[str, Change]:
    merged: dict[str, Change] = {}
    for run in reversed(runs):
        merged |= run
    return merged


def apply_changes(
    entries: Rows, changes: Changes, *, exact: bool = False
) -> tuple[dict[str, Entry], ChangeCounts]:
    result, added, changed, removed = dict(entries), 0, 0, 0
    for path, change in changes.items():
        old = result.get(path)
        if isinstance(change, Tombstone):
            removed += old is not None
            result.pop(path, None)
            continue
        added += old is None
        changed += old is not None and not alike(old, change)
        if exact or old is None or not alike(old, change):
            result[path] = change
    return result, ChangeCounts(added=added, changed=changed, removed=removed)


def diff(left: Rows, right: Rows) -> list[tuple[DiffType, Entry]]:
    found = []
    for path in sorted({*left, *right}):
        old, new = left.get(path), right.get(path)
        if new is None:
            assert old is not None
            found.append((DiffType.REMOVED, old))
        elif old is None:
            found.append((DiffType.ADDED, new))
        elif not alike(old, new):
            found.append((DiffType.CHANGED, new))
    return found


def merge(
    base: Rows, source: Rows, dest: Rows, strategy: MergeStrategy
) -> tuple[dict[str, Entry], list[str]]:
    result, conflicts = {}, []
    for path in sorted({*base, *source, *dest}):
        b, s, d = base.get(path), source.get(path), dest.get(path)
        if d == b:
            winner = s
        elif s == b or alike(s, d) or alike(s, b):
            winner = d
        elif alike(d, b):
            winner = s
        else:
            winner = s if strategy is MergeStrategy.SOURCE_WINS else d
            conflicts.append(path)
        if winner is not None:
            result[path] = winner
    return result, conflicts


def alike(a: Entry | None, b: Entry | None) -> bool:
    """Return whether a user sees no difference."""
    if a is None or b is None:
        return a is b
    if entry_identity(a) != entry_identity(b):
        return False
    if a.checksum == "":
        return a == b
    if a.address.startswith("data/") and b.address.startswith("data/"):
        return True
    return a.address == b.address


def keep_alike(changes: Changes, committed: Rows) -> dict[str, Change]:
    """Return the changes, each that is alike to the committed entry replaced by that."""
    return {
        path: committed[path] if isinstance(change, Entry) and alike(change, committed.get(path)) else change
        for path, change in changes.items()
    }
