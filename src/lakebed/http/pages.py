"""Which pages in a browser may change something. Pure.

A browser sends the login cookie, and can reach a server on loopback, for pages of any site. It also says which site the
page is from: `Sec-Fetch-Site` (over HTTPS and on loopback), and `Origin` with every method but GET and HEAD. Pages cannot
change either. Programs send neither, and no cookie but the one they were given.

    Sec-Fetch-Site       same-origin or none: go on     anything else: refused
    Origin (without it)  the server's own: go on        another, or null: refused
    neither              go on with an Authorization header or without credentials; refused with a cookie
"""

from collections.abc import Mapping
from typing import Final

from lakebed.errors import DeniedError, ErrorKind
from lakebed.http.hosts import Hosts

_OWN_SITES: Final = (b"same-origin", b"none")


def require_own_page(headers: Mapping[bytes, bytes], hosts: Hosts, *, by_cookie: bool) -> None:
    """Let a change pass that no page of another site can have asked for; `by_cookie` if only the cookie says who asks.

    Raises:
        DeniedError: `FOREIGN_PAGE`.
    """
    site = headers.get(b"sec-fetch-site")
    if site is not None:
        if site not in _OWN_SITES:
            raise _foreign(
                "a page of another site or port asks for this change: only the server's own pages may"
            )
        return
    origin = headers.get(b"origin")
    if origin is None:
        if by_cookie:
            raise _foreign(
                "a change with a login cookie needs the Origin or Sec-Fetch-Site that browsers send: "
                "send the token as `Authorization: Bearer` instead"
            )
        return
    if not hosts.is_own_origin(origin, headers.get(b"host")):
        raise _foreign(
            f"a page of {origin.decode('latin-1')} asks for this change, and the server is "
            f"{headers.get(b'host', b'').decode('latin-1')}: if both are one server behind a proxy, "
            "name its public host in `http.hosts`"
        )


def require_known_host(headers: Mapping[bytes, bytes], hosts: Hosts) -> None:
    """Refuse a page whose `Host` could be another site's that points to this server.

    Raises:
        DeniedError: `FOREIGN_PAGE`.
    """
    if b"sec-fetch-site" not in headers and b"origin" not in headers:
        return
    host = headers.get(b"host", b"")
    if not hosts.is_known(host):
        raise _foreign(
            f"the server does not know the name {host.decode('latin-1')}, so no page there can set it up: "
            "name it in `http.hosts`, or run `lakebed setup` where the data is"
        )


def _foreign(text: str) -> DeniedError:
    return DeniedError(ErrorKind.FOREIGN_PAGE, text)
