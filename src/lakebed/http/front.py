"""`Front`: how clients reach the server: by which names, through which proxies, and whether by HTTPS."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from lakebed.http.hosts import Hosts
from lakebed.http.proxies import Proxies


class SecureCookies(StrEnum):
    """Whether browsers are told to send the login cookie by HTTPS only."""

    AUTO = "auto"
    """If the login came by HTTPS, to this server or to a trusted proxy."""
    ALWAYS = "always"
    NEVER = "never"


@dataclass(frozen=True, slots=True, kw_only=True)
class Front:
    """What the settings say about the way to the server."""

    hosts: Hosts = field(default_factory=Hosts)
    proxies: Proxies = field(default_factory=Proxies)
    secure_cookies: SecureCookies = SecureCookies.AUTO
    tls: bool = False

    def are_cookies_secure(self, peer: str, headers: Mapping[bytes, bytes]) -> bool:
        """Return whether the login cookie of this client is for HTTPS only."""
        match self.secure_cookies:
            case SecureCookies.ALWAYS:
                return True
            case SecureCookies.NEVER:
                return False
            case SecureCookies.AUTO:
                return self.tls or self.proxies.is_https(peer, headers)
