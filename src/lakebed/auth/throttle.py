"""`Throttle`: slows down a client that guesses the secret of an access key, by logging in or by signing.

Failures are counted for each pair of client and access key, so that nobody else has to wait: not the owner of the key
at another address, and not another user at the same one. A failure is forgiven after a while; a success forgives all.
A credential that was right before is no guess and never waits, so that a client behind the same address cannot lock the
owner of a key out. Each worker counts for itself. Of an IPv6 client the network counts (/64), which is what one customer has.
"""

from ipaddress import IPv6Address, ip_address
from typing import Final

from lakebed.env.clock import Clock
from lakebed.errors import ErrorKind, UnavailableError
from lakebed.limits import LOGIN_FAILURES_KEPT, LOGIN_FAILURES_MAX, LOGIN_FAILURES_SECONDS

_FORGIVEN_A_SECOND: Final = LOGIN_FAILURES_MAX / LOGIN_FAILURES_SECONDS
_NETWORK_BITS: Final = 64


class Throttle:
    """The failures that a worker remembers: those of the pairs that failed last."""

    def __init__(self, clock: Clock, *, tries: str = "logins") -> None:
        """`tries` is what the error calls them."""
        self._clock = clock
        self._tries = tries
        self._failures: dict[bytes, tuple[float, float]] = {}
        """By pair: how many failures count, and when that was true."""
        self._proven: dict[bytes, None] = {}
        """Digests of credentials that were right, those that were used last at the end."""

    @property
    def is_calm(self) -> bool:
        """Whether no failures are remembered at all: there is nothing to ask for, and nothing to forgive."""
        return not self._failures

    def require(self, pair: bytes, credential: bytes) -> None:
        """Let a try pass; `credential` is a digest of key and secret.

        Raises:
            UnavailableError: `TOO_MANY_LOGINS`: too many tries of this pair have failed.
        """
        if credential not in self._proven and self._counting(pair) > LOGIN_FAILURES_MAX - 1:
            raise UnavailableError(
                ErrorKind.TOO_MANY_LOGINS,
                f"{LOGIN_FAILURES_MAX} {self._tries} with this access key have failed: wait a minute and check the secret",
            )

    def failed(self, pair: bytes) -> None:
        """Count a failure."""
        count = self._counting(pair) + 1
        # Put at the end: the pair that has not failed for the longest time makes room.
        self._failures.pop(pair, None)
        if len(self._failures) >= LOGIN_FAILURES_KEPT:
            self._failures.pop(next(iter(self._failures)))
        self._failures[pair] = (count, self._clock.monotonic())

    def succeeded(self, pair: bytes, credential: bytes) -> None:
        """Forgive, and remember the credential, whether or not it is still good when it comes again."""
        self._failures.pop(pair, None)
        self._proven.pop(credential, None)
        if len(self._proven) >= LOGIN_FAILURES_KEPT:
            self._proven.pop(next(iter(self._proven)))
        self._proven[credential] = None

    def _counting(self, pair: bytes) -> float:
        count, since = self._failures.get(pair, (0.0, 0.0))
        return max(0.0, count - (self._clock.monotonic() - since) * _FORGIVEN_A_SECOND)


def network_of(client: str) -> str:
    """Return what failures of a client are counted for: its address, or its network of IPv6."""
    try:
        address = ip_address(client)
    except ValueError:
        return client
    if isinstance(address, IPv6Address):
        return f"{int(address) >> (128 - _NETWORK_BITS):x}/{_NETWORK_BITS}"
    return client
