"""`Request`: one HTTP request as the S3 endpoint sees it.

Signatures are computed over what was sent, so the raw path and query are kept beside
what they mean.
"""

from collections.abc import Mapping

import msgspec


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
