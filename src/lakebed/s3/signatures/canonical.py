"""A request as one text, the same for who signs it and who verifies it (version 4). Pure.

S3's own rules: the path is signed as it is sent, with every dot and slash; the query is
sorted by its escaped names and values; values of headers are trimmed and runs of spaces
in them count as one.

Some clients sign a path or query with every special character escaped and then send some
of them plain. Amazon accepts them, because it escapes again what it has understood;
`escaped_path` and `escaped_query` do that.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Final
from urllib.parse import quote, unquote_to_bytes

_SIGNATURE: Final = "X-Amz-Signature"
_UNRESERVED: Final = "-_.~"
_BLANKS: Final = re.compile("[ \t]+")


def canonical_request(
    *,
    method: str,
    path: str,
    query: str,
    headers: Mapping[str, str],
    signed_headers: Sequence[str],
    payload: str,
) -> str:
    """Return the text whose hash is signed. `path` and `query` are canonical already."""
    lines = [f"{name}:{_trimmed(headers.get(name, ''))}\n" for name in signed_headers]
    return f"{method}\n{path}\n{query}\n{''.join(lines)}\n{';'.join(signed_headers)}\n{payload}"


def sent_path(raw_path: str) -> str:
    """Return a path as it was sent."""
    return raw_path or "/"


def sent_query(raw_query: str, *, presigned: bool) -> str:
    """Return a query as it was sent, sorted; without the signature if that is where it came from."""
    if not raw_query:
        return ""
    # By name and then value: sorted as whole texts, "a-b=" would come before "a=".
    pairs = sorted([part.partition("=") for part in raw_query.split("&") if part])
    return "&".join([f"{name}={value}" for name, _, value in pairs if not (presigned and name == _SIGNATURE)])


def escaped_path(raw_path: str) -> str:
    """Return a path with everything escaped that can be."""
    return quote(unquote_to_bytes(octets(raw_path)), safe="/" + _UNRESERVED) or "/"


def escaped_query(raw_query: str, *, presigned: bool) -> str:
    """Return a query, sorted, with everything escaped that can be; a plus counts as the space it is read as."""
    parts = (part.replace("+", "%20").partition("=") for part in raw_query.split("&") if part)
    pairs = sorted((_escaped(name), _escaped(value)) for name, _, value in parts)
    return "&".join(f"{name}={value}" for name, value in pairs if not (presigned and name == _SIGNATURE))


def octets(text: str) -> bytes:
    """Return the bytes that a text of a request's head came as.

    Heads are read as Latin-1, which loses nothing. Characters beyond it can only come from
    a caller that read UTF-8.
    """
    try:
        return text.encode("latin-1")
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")


def _escaped(text: str) -> str:
    return quote(unquote_to_bytes(octets(text)), safe=_UNRESERVED)


def _trimmed(value: str) -> str:
    # Not str.split: it takes bytes of UTF-8 that were read as Latin-1 for spaces (0x85, 0xA0).
    return _BLANKS.sub(" ", value.strip(" \t")) if " " in value or "\t" in value else value
