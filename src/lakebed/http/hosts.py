"""`Hosts`: the names by which clients may reach the server. Pure.

A page of another site can point its own name at this server's address (DNS rebinding), and its requests are then of the
same origin as the server. Such a request names the other site in `Host`. An address cannot be pointed elsewhere, and
browsers resolve `localhost` themselves, so both are always safe.
"""

from collections.abc import Iterable
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final

from lakebed.format.memo import memo

_LOCALHOST: Final = "localhost"
_DEFAULT_PORTS: Final = {"http": "80", "https": "443"}


class Hosts:
    """Decides on `Host` and `Origin`. Without names every `Host` is accepted, unless only loopback is."""

    def __init__(
        self, names: Iterable[str] = (), *, domain: str | None = None, loopback_only: bool = False
    ) -> None:
        """Accept `names` (a port counts for origins only), and `domain` with everything below it."""
        entries = [each.lower() for each in names]
        self._entries = frozenset(split_host(each) for each in entries)
        self._names = frozenset(name for name, _ in self._entries)
        self._domain = domain.lower() if domain else None
        self._loopback_only = loopback_only
        self.is_open = not (loopback_only or self._names)
        """Whether any `Host` is accepted."""
        # The same few hosts come with every request.
        self.accepts = memo(self._accepts)

    def is_known(self, host: bytes) -> bool:
        """Return whether no other site can claim this `Host`: an address, localhost, or a name from the settings."""
        name, _ = split_host(host.decode("latin-1").lower())
        return _is_localhost(name) or _address(name) is not None or self._is_named(name)

    def is_own_origin(self, origin: bytes, host: bytes | None) -> bool:
        """Return whether a page of this `Origin` is one of the server that `Host` names, or of a name from the settings."""
        scheme, _, rest = origin.decode("latin-1").lower().partition("://")
        default = _DEFAULT_PORTS.get(scheme)
        if default is None or not rest:
            return False
        name, port = split_host(rest)
        page = (name, port or default)
        if host is not None:
            own_name, own_port = split_host(host.decode("latin-1").lower())
            if page == (own_name, own_port or default):
                return True
        return page in self._entries or (page[1] == default and (name, "") in self._entries)

    def _accepts(self, host: bytes) -> bool:
        if self.is_open:
            return True
        name, _ = split_host(host.decode("latin-1").lower())
        if _is_localhost(name) or self._is_in_domain(name):
            return True
        address = _address(name)
        if self._loopback_only:
            return address is not None and address.is_loopback
        return address is not None or self._is_named(name)

    def _is_named(self, name: str) -> bool:
        return name in self._names or self._is_in_domain(name)

    def _is_in_domain(self, name: str) -> bool:
        return self._domain is not None and (name == self._domain or name.endswith(f".{self._domain}"))


def split_host(host: str) -> tuple[str, str]:
    """Return name and port of a `Host`; no port is "".

    >>> split_host("[::1]:8000")
    ('::1', '8000')
    """
    if host.startswith("["):
        name, _, rest = host[1:].partition("]")
        return name, rest.removeprefix(":")
    name, _, port = host.partition(":")
    return name.removesuffix("."), port


def _is_localhost(name: str) -> bool:
    return name == _LOCALHOST or name.endswith(f".{_LOCALHOST}")


def _address(name: str) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address(name)
    except ValueError:
        return None
