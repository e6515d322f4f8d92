"""Conditions on reads and writes, as headers state them. Pure.

Reads follow RFC 9110, section 13.2.2: ETags before dates, and what must match before what must not.
"""

from collections.abc import Mapping
from enum import Enum

from lakebed.env.clock import SECOND
from lakebed.http.dates import parse_http_date
from lakebed.model.entries import Entry
from lakebed.s3.errors import Code, S3Error
from lakebed.staging.conditions import Condition, IfAbsent, IfChecksum


class Verdict(Enum):
    """What the conditions of a read say."""

    GO = "go"
    NOT_MODIFIED = "not modified"
    FAILED = "failed"


def verdict(headers: Mapping[str, str], entry: Entry, *, prefix: str = "") -> Verdict:
    """Return whether a read of `entry` shall be done; `prefix` is that of a copy's source."""
    if_match = headers.get(f"{prefix}if-match")
    modified = entry.mtime // SECOND
    if if_match is not None:
        if not _matches(if_match, entry.checksum):
            return Verdict.FAILED
    elif (since := _date(headers, f"{prefix}if-unmodified-since")) is not None and modified > since:
        return Verdict.FAILED
    if_none_match = headers.get(f"{prefix}if-none-match")
    if if_none_match is not None:
        return Verdict.NOT_MODIFIED if _matches(if_none_match, entry.checksum) else Verdict.GO
    since = _date(headers, f"{prefix}if-modified-since")
    return Verdict.NOT_MODIFIED if since is not None and modified <= since else Verdict.GO


def has_conditions(headers: Mapping[str, str]) -> bool:
    """Return whether a read states any: most do not."""
    return (
        "if-match" in headers
        or "if-none-match" in headers
        or "if-modified-since" in headers
        or "if-unmodified-since" in headers
    )


def write_condition(headers: Mapping[str, str]) -> Condition | None:
    """Return the condition that the headers of a write state.

    Raises:
        S3Error: one that Amazon does not take either.
    """
    if_match, if_none_match = headers.get("if-match"), headers.get("if-none-match")
    if if_match is None and if_none_match is None:
        return None
    if if_match is not None and if_none_match is not None:
        raise S3Error(
            Code.NOT_IMPLEMENTED, "If-Match and If-None-Match exclude each other: send one of them."
        )
    if if_match is not None:
        if if_match.strip() == "*":
            raise S3Error(Code.NOT_IMPLEMENTED, "If-Match of a write takes an ETag, not *.")
        return IfChecksum(if_match.strip().strip('"'))
    if if_none_match is None or if_none_match.strip() != "*":
        raise S3Error(Code.NOT_IMPLEMENTED, "If-None-Match of a write can only be *.")
    return IfAbsent()


def failed(condition: str) -> S3Error:
    """The error for a condition that does not hold."""
    return S3Error(
        Code.PRECONDITION_FAILED,
        "At least one of the pre-conditions you specified did not hold",
        Condition=condition,
    )


def _matches(header: str, checksum: str) -> bool:
    if header.strip() == "*":
        return True
    return any(each.strip().removeprefix("W/").strip('"') == checksum for each in header.split(","))


def _date(headers: Mapping[str, str], name: str) -> int | None:
    """Return a header's date in seconds, as exact as headers are; None if it is no date, which is then ignored."""
    instant = parse_http_date(headers.get(name, ""))
    return None if instant is None else instant // SECOND
