"""`Request`: one HTTP request as the S3 endpoint sees it.

Signatures are computed over what was sent, so the raw path and query are kept beside
what they mean.
"""

from collections.abc import Mapping
from typing import Final

import msgspec
from msgspec.structs import replace

COPY_SOURCE: Final = "x-amz-copy-source"
# Headers that mean something though they are empty: values of metadata, and what is then wrong and not absent.
_MEANT: Final = frozenset(
    (COPY_SOURCE, "content-length", "content-md5", "x-amz-content-sha256", "x-amz-trailer")
)
_MEANT_PREFIXES: Final = ("x-amz-meta-", "x-amz-checksum-", "x-amz-decoded-content-")
_OPTIONAL_IN_READS: Final = frozenset(("list-type", "partNumber", "versionId"))
_READS: Final = ("GET", "HEAD")


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """The head of a request."""

    method: str
    raw_path: str
    """As sent: percent-encoded, without the query."""
    raw_query: str
    """As sent, without the question mark."""
    headers: Mapping[str, str]
    """By lower-case name; values that were sent more than once are joined by commas."""
    query: Mapping[str, str]
    """Decoded; of a name that occurs more than once the first value counts."""


def without_empty(request: Request, sub_resources: frozenset[str]) -> Request:
    """Return a request without what was sent empty and is optional: that counts as absent.

    Names that choose an operation stay, because most of them have no value. A read may send those that have one empty;
    in a write they stay too: without its empty id, the abort of an upload would be the deletion of an object.

    Only for what comes after the signature, which covers what was sent.
    """
    headers, query = request.headers, request.query
    if "" in headers.values():
        headers = {name: value for name, value in headers.items() if value or _is_meant(name)}
    if query and "" in query.values():
        kept = sub_resources - _OPTIONAL_IN_READS if request.method in _READS else sub_resources
        query = {name: value for name, value in query.items() if value or name in kept}
    if headers is request.headers and query is request.query:
        return request
    return replace(request, headers=headers, query=query)


def _is_meant(name: str) -> bool:
    return name in _MEANT or name.startswith(_MEANT_PREFIXES)
