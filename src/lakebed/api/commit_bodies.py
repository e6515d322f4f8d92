"""Commits on the wire, and what clients say about new ones."""

from collections.abc import Mapping

import msgspec

from lakebed.api.call import Call
from lakebed.model.commits import Commit
from lakebed.versioning.commit import CommitRequest


class CommitBody(msgspec.Struct):
    """A commit."""

    id: str
    parents: tuple[str, ...]
    committer: str
    message: str
    creation_date: int
    meta_range_id: str
    metadata: Mapping[str, str]
    generation: int
    version: int = 1


class CommitOverrides(msgspec.Struct):
    """What replaces the usual message and metadata."""

    message: str | None = None
    metadata: dict[str, str] | None = None


def commit_body(commit: Commit) -> CommitBody:
    """Return a commit as clients see it."""
    return CommitBody(
        id=commit.id,
        parents=commit.parents,
        committer=commit.committer,
        message=commit.message,
        creation_date=commit.date,
        meta_range_id=commit.tree,
        metadata=commit.metadata,
        generation=commit.generation,
    )


def request_of(
    call: Call,
    message: str,
    *,
    metadata: Mapping[str, str] | None = None,
    date: int | None = None,
    allow_empty: bool = False,
    overrides: CommitOverrides | None = None,
) -> CommitRequest:
    """Return what the catalog needs to know about a commit that the caller makes."""
    if overrides is not None:
        message = overrides.message or message
        metadata = overrides.metadata if overrides.metadata is not None else metadata
    return CommitRequest(
        committer=call.session.caller.committer,
        message=message,
        metadata=metadata or {},
        date=date,
        allow_empty=allow_empty,
    )
