"""User metadata: how much of it objects and commits may carry."""

from collections.abc import Mapping

from lakebed.errors import ErrorKind, InvalidInputError
from lakebed.limits import METADATA_BYTES_MAX


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
