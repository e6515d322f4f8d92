"""Conditions on a write, and whether they hold. Pure.

A condition is decided against one view of the branch and written fenced on that
view, so that it holds at the moment the write becomes visible, or the write
does not happen.
"""

from dataclasses import dataclass
from typing import TypeAlias, assert_never

from lakebed.errors import ErrorKind, PreconditionError
from lakebed.format.identity import entry_identity
from lakebed.model.entries import Change, Entry


@dataclass(frozen=True, slots=True)
class IfAbsent:
    """There is no object at the path (`If-None-Match: *`)."""


@dataclass(frozen=True, slots=True)
class IfChecksum:
    """The object at the path has this checksum (`If-Match`)."""

    checksum: str


@dataclass(frozen=True, slots=True)
class IfSame:
    """The object at the path is still this one: what a read-modify-write needs."""

    entry: Entry


Condition: TypeAlias = IfAbsent | IfChecksum | IfSame


def require(condition: Condition, current: Change | None, path: str) -> None:
    """Raise `PreconditionError` unless `condition` holds of `current`, the newest change of `path` or None."""
    entry = current if isinstance(current, Entry) else None
    match condition:
        case IfAbsent():
            held, reason = entry is None, "exists already"
        case IfChecksum(checksum=checksum):
            held, reason = (
                entry is not None and entry.checksum == checksum,
                "has another checksum or does not exist",
            )
        case IfSame(entry=expected):
            held, reason = entry is not None and _same(entry, expected), "was changed meanwhile"
        case _:
            assert_never(condition)
    if not held:
        raise PreconditionError(
            ErrorKind.CONDITION_FAILED,
            f"object {path!r} {reason}",
            # How a caller of HTTP writes that condition.
            about="*" if isinstance(condition, IfAbsent) else "",
        )


def _same(entry: Entry, expected: Entry) -> bool:
    return entry.address == expected.address and entry_identity(entry) == entry_identity(expected)
