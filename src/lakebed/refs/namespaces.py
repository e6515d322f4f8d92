"""Storage namespaces as text: which of them share a place. Pure.

Two repositories never share or nest a namespace: the garbage collection of one
would take the other's objects for its own.
"""

import re

from lakebed.errors import ErrorKind, InvalidInputError

_NAMESPACE = re.compile(r"([a-z][a-z0-9+.-]*)://([^/\s?#]*)(/[^\s?#]*)?")


def normalise_namespace(text: str) -> str:
    """Return the one spelling of a namespace, without a slash at its end.

    >>> normalise_namespace("s3://bucket/lake/")
    's3://bucket/lake'

    Raises:
        InvalidInputError: `INVALID_NAMESPACE`.
    """
    matched = _NAMESPACE.fullmatch(text)
    path = (matched.group(3) or "").rstrip("/") if matched else ""
    segments = path.split("/")[1:]
    if (
        matched is None
        or (not matched.group(2) and not segments)
        or any(segment in {"", ".", ".."} for segment in segments)
    ):
        raise InvalidInputError(
            ErrorKind.INVALID_NAMESPACE,
            f"namespace {text!r} must look like scheme://bucket/path, without empty, '.' or '..' parts",
        )
    return f"{matched.group(1)}://{matched.group(2)}{path}"


def namespaces_clash(left: str, right: str) -> bool:
    """Return whether two normalised namespaces are the same or one lies inside the other.

    >>> namespaces_clash("s3://bucket/a", "s3://bucket/a/b"), namespaces_clash("s3://bucket/a", "s3://bucket/ab")
    (True, False)
    """
    return f"{left}/".startswith(f"{right}/") or f"{right}/".startswith(f"{left}/")


def namespaces_above(namespace: str) -> list[str]:
    """Return the namespaces that would contain a normalised one, the nearest first.

    >>> namespaces_above("s3://bucket/a/b")
    ['s3://bucket/a', 's3://bucket']
    """
    scheme, _, rest = namespace.partition("://")
    host, *segments = rest.split("/")
    above = [f"{scheme}://{'/'.join([host, *segments[:size]])}" for size in range(len(segments) - 1, -1, -1)]
    return above if host else above[:-1]
