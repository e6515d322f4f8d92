"""The id under which a request is logged and answered: the client's own, or a new one.

New ones are a name for the process and a number: enough to find one request in the logs
of a fleet, and cheaper than chance for every request.
"""

from collections.abc import Mapping
from itertools import count

_GIVEN_BYTES_MAX = 128


class RequestIds:
    """Gives out request ids; `process` tells this process from all others."""

    def __init__(self, process: str) -> None:
        self._prefix = process[:12]
        self._numbers = count(1)

    def of(self, headers: Mapping[bytes, bytes]) -> str:
        """Return the id of a request with these headers."""
        given = headers.get(b"x-request-id")
        if given and len(given) <= _GIVEN_BYTES_MAX and given.isascii() and given.decode().isprintable():
            return given.decode()
        return f"{self._prefix}-{next(self._numbers):x}"
