"""What obstore raises, in our words.

obstore keeps the HTTP status only in its message. A write that got no answer, or
one that says that the server stumbled, may have been applied.
"""

import re
from typing import Final

from obstore.exceptions import BaseError, PermissionDeniedError, UnauthenticatedError

from lakebed.errors import ErrorKind, InvalidInputError, LakebedError, UnavailableError
from lakebed.objects.s3.replies import failure

ObstoreFailure: Final = (BaseError, OSError, ValueError)
"""All that a call of obstore may raise: it also uses FileNotFoundError and ValueError."""

_STATUS: Final = re.compile(r"status code: (\d{3})")
_BODY: Final = re.compile(r"<Error>.*?</Error>", re.DOTALL)


def status_of(error: Exception) -> int | None:
    """Return the status that the server answered with, or None if it did not."""
    found = _STATUS.search(str(error))
    return int(found.group(1)) if found else None


def translate(error: Exception, *, what: str, writing: bool) -> LakebedError:
    """Return the error for a failure that means nothing special to the caller."""
    if isinstance(error, ValueError):
        return InvalidInputError(ErrorKind.INVALID_KEY, f"{what}: {error}")
    status = status_of(error)
    if status is None and isinstance(error, (PermissionDeniedError, UnauthenticatedError)):
        status = 403
    if status is None:
        kind = ErrorKind.OUTCOME_UNKNOWN if writing else ErrorKind.STORE_UNAVAILABLE
        return UnavailableError(kind, f"S3 did not answer to {what}: {str(error).splitlines()[0]}")
    body = _BODY.search(str(error))
    return failure(status, body.group().encode() if body else b"", what=what, writing=writing)
