"""Whether an endpoint of S3 is the server itself: one that stored into itself would ask itself for ever.

People set `AWS_ENDPOINT_URL` to a server's address for the tools that read from it, and start the server from the same
shell. Names that only a proxy in front of the server knows cannot be recognised here.
"""

import socket
from collections.abc import Iterable
from ipaddress import ip_address
from urllib.parse import urlsplit

_PORTS = {"http": 80, "https": 443}


def is_own_address(endpoint: str, listening: Iterable[tuple[str, int]], *, domain: str | None = None) -> bool:
    """Return whether `endpoint` is one of the addresses (host and port), or a host of the server's S3 domain."""
    parts = urlsplit(endpoint if "://" in endpoint else f"http://{endpoint}")
    host = (parts.hostname or "").lower()
    try:
        port = parts.port or _PORTS.get(parts.scheme, 0)
    except ValueError:
        return False
    if domain and (host == domain.lower() or host.endswith(f".{domain.lower()}")):
        return True
    hosts = [bound for bound, bound_port in listening if bound_port == port]
    if not hosts:
        return False
    places = _places(host)
    # A wildcard listens on every address of this machine, and on no other.
    return any(
        place in _places(bound) or (_is_wildcard(bound) and _is_of_this_machine(place))
        for bound in hosts
        for place in places
    )


def _places(host: str) -> set[str]:
    try:
        return {str(info[4][0]) for info in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)}
    except OSError:
        return set()


def _is_wildcard(host: str) -> bool:
    try:
        return ip_address(host).is_unspecified
    except ValueError:
        return False


def _is_of_this_machine(place: str) -> bool:
    """Return whether a socket can be bound to an address: only those of this machine can."""
    family = socket.AF_INET6 if ":" in place else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.bind((place, 0))
    except OSError:
        return False
    return True
