"""Which keys S3 gets through obstore unchanged. Pure.

obstore tidies paths: it drops slashes at the ends and refuses empty, `.` and `..`
segments and control characters. Servers tidy too (some store `a//b`, or `a` and
`b` with a backslash between them, as `a/b`), and what XML cannot say cannot be
deleted. A key that anyone on the way may change is refused before it is sent.
"""

import re
from typing import Final

from lakebed.errors import ErrorKind, InvalidInputError
from lakebed.limits import PATH_BYTES_MAX
from lakebed.objects.checks import check_key
from lakebed.objects.s3.place import S3Place

_CHANGED: Final = re.compile(r"[\x00-\x1f\x7f\\\ufffe\uffff]")


def whole_name(place: S3Place, key: str) -> str:
    """Return the name of `key` in the bucket.

    Raises:
        InvalidInputError: `INVALID_KEY`: it would not come back as it is.
    """
    check_key(key)
    if _CHANGED.search(key) or any(segment in {"", ".", ".."} for segment in key.split("/")):
        raise InvalidInputError(
            ErrorKind.INVALID_KEY,
            f"key {key!r} is not kept as it is on s3://: it has an empty, '.' or '..' part, a control character, a backslash or a letter that XML has not",
        )
    name = place.name(key)
    if len(name.encode()) > PATH_BYTES_MAX:
        raise InvalidInputError(
            ErrorKind.INVALID_KEY,
            f"key {key[:50]!r}… is longer than {PATH_BYTES_MAX} bytes with the namespace's prefix {place.prefix!r}",
        )
    return name
