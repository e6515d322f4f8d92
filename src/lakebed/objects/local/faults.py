"""What the operating system says, in our words, with the next step."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from lakebed.errors import ErrorKind, UnavailableError

_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
_REFUSED: Final = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})


class UnsureError(OSError):
    """A failure after which nobody knows whether the write counts."""


@contextmanager
def translated(root: str, *, applied: bool = False) -> Iterator[None]:
    """Raise every `OSError` of the block as `UnavailableError`.

    `applied` says that the block comes after the point where a write may count,
    so that its failure leaves the outcome unknown.
    """
    try:
        yield
    except OSError as error:
        raise disk_error(error, root, applied=applied) from error


def disk_error(error: OSError, root: str, *, applied: bool = False) -> UnavailableError:
    """Return `error` as one of ours."""
    if error.errno in _FULL:
        kind, text = (
            ErrorKind.DISK_FULL,
            f"the disk that holds {root} is full: free space there, then try again",
        )
    elif error.errno in _REFUSED:
        kind = ErrorKind.STORE_UNAVAILABLE
        text = f"{root} may not be read or written ({error.strerror}): give it to the user that runs lakebed"
    else:
        kind, text = ErrorKind.STORE_UNAVAILABLE, f"the disk that holds {root} failed: {error}"
    unsure = applied or isinstance(error, UnsureError)
    return UnavailableError(ErrorKind.OUTCOME_UNKNOWN if unsure else kind, text)
