"""`Operation`: one row of the table of S3 operations, and how a request finds its row.

Amazon tells operations apart by the method, by whether a bucket or a key is named, and by
names in the query ("sub-resources"). So a row is found by one look into a dict; whatever
is not in it is not ours.
"""

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Final, TypeAlias

from lakebed.http.reply import Reply
from lakebed.s3.call import Call
from lakebed.s3.errors import Code, S3Error
from lakebed.s3.request import COPY_SOURCE, Request

Handler: TypeAlias = Callable[[Call], Awaitable[Reply]]

# Names in a query that say which operation is meant, whether we have it or not.
SUB_RESOURCES: Final = frozenset(
    [
        "accelerate",
        "acl",
        "analytics",
        "attributes",
        "cors",
        "delete",
        "encryption",
        "intelligent-tiering",
        "inventory",
        "legal-hold",
        "lifecycle",
        "list-type",
        "location",
        "logging",
        "metadataTable",
        "metrics",
        "notification",
        "object-lock",
        "ownershipControls",
        "partNumber",
        "policy",
        "policyStatus",
        "publicAccessBlock",
        "renameObject",
        "replication",
        "requestPayment",
        "restore",
        "retention",
        "select",
        "select-type",
        "session",
        "tagging",
        "torrent",
        "uploadId",
        "uploads",
        "versionId",
        "versioning",
        "versions",
        "website",
    ]
)
_PLAIN: Final[frozenset[str]] = frozenset()


class Level(Enum):
    """What a request is about."""

    SERVICE = "service"
    BUCKET = "bucket"
    OBJECT = "object"


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One row."""

    name: str
    """Amazon's."""
    method: str
    level: Level
    handler: Handler
    keys: frozenset[str] = _PLAIN
    """Exactly these sub-resources are in the query."""
    is_copy: bool = False
    """The request names a source to copy from."""

    @property
    def writes(self) -> bool:
        """Whether it changes something: who did it is logged."""
        return self.method not in ("GET", "HEAD")


class Table:
    """Finds operations."""

    def __init__(self, operations: Iterable[Operation]) -> None:
        self._rows = {(row.method, row.level, row.keys, row.is_copy): row for row in operations}

    def find(self, request: Request, level: Level) -> Operation:
        """Return the operation that a request asks for.

        Raises:
            S3Error: it is not ours.
        """
        query = request.query
        keys = SUB_RESOURCES.intersection(query) if query else _PLAIN
        is_copy = COPY_SOURCE in request.headers
        row = self._rows.get((request.method, level, keys, is_copy))
        if row is None:
            row = self._rows.get((request.method, level, keys, False))
        if row is None:
            raise _not_ours(request, level, keys)
        return row


def _not_ours(request: Request, level: Level, keys: frozenset[str]) -> S3Error:
    if request.method not in ("GET", "HEAD", "PUT", "POST", "DELETE", "OPTIONS"):
        return S3Error(Code.METHOD_NOT_ALLOWED, "The specified method is not allowed against this resource.")
    if "versionId" in keys:
        return S3Error(
            Code.NOT_IMPLEMENTED,
            "Objects have no versions here: a commit is one, so put its id, or a tag, where the branch is in the key.",
        )
    what = f" with {', '.join(sorted(keys))}" if keys else ""
    return S3Error(Code.NOT_IMPLEMENTED, f"{request.method} of a {level.value}{what} is not implemented.")
