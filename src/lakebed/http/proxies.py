"""`Proxies`: which machines may say for whom they ask. Pure.

`X-Forwarded-For` and `X-Forwarded-Proto` count only on connections of a trusted proxy: anybody can send them.
"""

from collections.abc import Iterable, Mapping
from ipaddress import ip_address, ip_network

from lakebed.format.memo import memo


class Proxies:
    """The proxies in front of the server, by address or network (`10.0.0.0/8`)."""

    def __init__(self, networks: Iterable[str] = ()) -> None:
        self._networks = [ip_network(each) for each in networks]
        self.are_none = not self._networks
        self._trusts = memo(self._is_inside)

    def client(self, peer: str, headers: Mapping[bytes, bytes]) -> str:
        """Return the address of the client: the last one that no trusted proxy has."""
        if self.are_none or not self._trusts(peer):
            return peer
        forwarded = headers.get(b"x-forwarded-for", b"").decode("latin-1").split(",")
        for address in reversed([each.strip() for each in forwarded]):
            if address and not self._trusts(address):
                return address
        return peer

    def is_https(self, peer: str, headers: Mapping[bytes, bytes]) -> bool:
        """Return whether a trusted proxy says that the client came by HTTPS."""
        if self.are_none or not self._trusts(peer):
            return False
        return headers.get(b"x-forwarded-proto", b"").rpartition(b",")[2].strip().lower() == b"https"

    def _is_inside(self, address: str) -> bool:
        try:
            found = ip_address(address)
        except ValueError:
            return False
        return any(found in network for network in self._networks)
