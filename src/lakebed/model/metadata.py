"""User metadata and messages: how much of them objects, commits and stashes may carry."""

from collections.abc import Mapping

from lakebed.errors import ErrorKind, InvalidInputError
from lakebed.limits import MESSAGE_BYTES_MAX, METADATA_BYTES_MAX


def require_small(metadata: Mapping[str, str]) -> None:
    """Raise `InvalidInputError` (`TOO_LARGE`) if there is more user metadata than an object or a commit may have.

    Every use case that takes metadata from a client asks this first; what is stored already is not asked again.
    """
    if not metadata:
        return
    size = sum(len(key.encode()) + len(value.encode()) for key, value in metadata.items())
    if size > METADATA_BYTES_MAX:
        raise InvalidInputError(
            ErrorKind.TOO_LARGE, f"{size} bytes of user metadata, {METADATA_BYTES_MAX} are the most"
        )


def require_short(message: str) -> None:
    """Raise `InvalidInputError` (`TOO_LARGE`) if a message is longer than one of a commit or a stash may be."""
    size = len(message.encode("utf-8", "surrogatepass"))
    if size > MESSAGE_BYTES_MAX:
        raise InvalidInputError(
            ErrorKind.TOO_LARGE,
            f"a message of {size} bytes, {MESSAGE_BYTES_MAX} are the most: put it into an object",
        )
