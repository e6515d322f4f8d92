"""Which pages may change something, by which names the server is reached, and which proxies are believed."""

import pytest

from lakebed.errors import DeniedError, ErrorKind
from lakebed.http.hosts import Hosts
from lakebed.http.pages import require_known_host, require_own_page
from lakebed.http.proxies import Proxies
from lakebed.http.sandbox import is_active


def headers(**values: str) -> dict[bytes, bytes]:
    return {name.replace("_", "-").encode(): value.encode() for name, value in values.items()}


def passes(hosts: Hosts, *, by_cookie: bool = True, **values: str) -> bool:
    try:
        require_own_page(headers(**{"host": "lake.example", **values}), hosts, by_cookie=by_cookie)
    except DeniedError as error:
        return error.kind is not ErrorKind.FOREIGN_PAGE
    return True


@pytest.mark.parametrize(
    ("sent", "with_cookie", "without"),
    [
        ({}, False, True),
        ({"sec_fetch_site": "same-origin"}, True, True),
        ({"sec_fetch_site": "none"}, True, True),
        ({"sec_fetch_site": "same-site"}, False, False),
        ({"sec_fetch_site": "cross-site"}, False, False),
        ({"sec_fetch_site": ""}, False, False),
        ({"sec_fetch_site": "same-origin, cross-site"}, False, False),
        ({"sec_fetch_site": "cross-site", "origin": "https://lake.example"}, False, False),
        # Behind a proxy that changes Host, the browser still knows.
        ({"sec_fetch_site": "same-origin", "origin": "https://public.example"}, True, True),
        ({"origin": "https://lake.example"}, True, True),
        ({"origin": "http://lake.example"}, True, True),
        ({"origin": "http://LAKE.example:80"}, True, True),
        ({"origin": "https://lake.example:443"}, True, True),
        ({"origin": "https://lake.example:8443"}, False, False),
        ({"origin": "https://lake.example:8443", "host": "lake.example:8443"}, True, True),
        ({"origin": "http://127.0.0.1:8001", "host": "127.0.0.1:8000"}, False, False),
        ({"origin": "http://[::1]:8000", "host": "[::1]:8000"}, True, True),
        ({"origin": "https://evil.example"}, False, False),
        ({"origin": "https://lake.example.evil.example"}, False, False),
        ({"origin": "null"}, False, False),
        ({"origin": ""}, False, False),
        ({"origin": "://lake.example"}, False, False),
    ],
)
def test_only_the_servers_own_pages_change_something(
    sent: dict[str, str], with_cookie: bool, without: bool
) -> None:
    assert passes(Hosts(), **sent) == with_cookie
    assert passes(Hosts(), by_cookie=False, **sent) == without


def test_pages_of_the_public_names_are_the_servers_own_at_the_ports_that_are_named() -> None:
    hosts = Hosts(["lake.example", "Other.Example:8443"])
    behind = {"host": "backend:8000"}
    assert passes(hosts, origin="https://lake.example", **behind)
    assert passes(hosts, origin="https://other.example:8443", **behind)
    assert not passes(hosts, origin="https://lake.example:9999", **behind)
    assert not passes(hosts, origin="https://other.example", **behind)
    assert not passes(hosts, origin="https://evil.example", **behind)


@pytest.mark.parametrize(
    ("host", "anywhere", "named", "loopback"),
    [
        ("localhost", True, True, True),
        ("localhost:8000", True, True, True),
        ("LocalHost.", True, True, True),
        ("bucket.localhost:8000", True, True, True),
        ("127.0.0.1:8000", True, True, True),
        ("127.9.9.9", True, True, True),
        ("[::1]:8000", True, True, True),
        ("10.0.0.5:8000", True, True, False),
        ("lake.example", True, True, False),
        ("lake.example:8000", True, True, False),
        ("bucket.s3.example", True, True, True),
        ("evil.example", True, False, False),
        ("localhost.evil.example", True, False, False),
        ("127.0.0.1.evil.example", True, False, False),
        ("lake.example.evil.example", True, False, False),
        ("evil-s3.example", True, False, False),
        ("", True, False, False),
        ("[", True, False, False),
        ("\xff", True, False, False),
    ],
)
def test_a_host_is_accepted_by_its_name(host: str, anywhere: bool, named: bool, loopback: bool) -> None:
    raw = host.encode("latin-1")
    assert Hosts().accepts(raw) == anywhere
    assert Hosts(["lake.example"], domain="s3.example").accepts(raw) == named
    assert Hosts(["lake.example"], domain="s3.example", loopback_only=True).accepts(raw) == loopback
    assert Hosts(["lake.example"], domain="s3.example").is_known(raw) == named


def test_a_page_sets_the_server_up_only_under_a_name_that_cannot_be_another_sites() -> None:
    page = {"sec_fetch_site": "same-origin"}
    require_known_host(headers(host="rebound.evil.example"), Hosts())  # a program, not a page
    require_known_host(headers(host="10.0.0.5:8000", **page), Hosts())
    require_known_host(headers(host="lake.example", **page), Hosts(["lake.example"]))
    for sent in (page, {"origin": "http://rebound.evil.example"}):
        with pytest.raises(DeniedError, match="lakebed setup"):
            require_known_host(headers(host="rebound.evil.example", **sent), Hosts())


@pytest.mark.parametrize(
    ("peer", "forwarded", "client"),
    [
        ("192.0.2.1", "203.0.113.9", "192.0.2.1"),
        ("10.0.0.1", "203.0.113.9", "203.0.113.9"),
        ("10.0.0.1", "1.1.1.1, 203.0.113.9", "203.0.113.9"),
        ("10.0.0.1", "203.0.113.9, 10.0.0.2", "203.0.113.9"),
        ("10.0.0.1", "", "10.0.0.1"),
        ("10.0.0.1", "10.0.0.3", "10.0.0.1"),
        ("", "203.0.113.9", ""),
    ],
)
def test_the_client_is_the_last_address_that_no_trusted_proxy_has(
    peer: str, forwarded: str, client: str
) -> None:
    sent = headers(x_forwarded_for=forwarded, x_forwarded_proto="https")
    assert Proxies(["10.0.0.0/24"]).client(peer, sent) == client
    assert Proxies(["10.0.0.0/24"]).is_https(peer, sent) == peer.startswith("10.")
    assert Proxies().client(peer, sent) == peer
    assert not Proxies().is_https(peer, sent)


@pytest.mark.parametrize(
    ("content_type", "active"),
    [
        (b"text/html", True),
        (b"TEXT/HTML; charset=utf-8", True),
        (b"application/xhtml+xml", True),
        (b"image/svg+xml", True),
        (b"text/xml", True),
        (b"application/rss+xml", True),
        (b"text/javascript", True),
        (b"multipart/x-mixed-replace", True),
        (b"text/plain", False),
        (b"text/csv", False),
        (b"image/png", False),
        (b"application/json", False),
        (b"application/vnd.apache.parquet", False),
        (b"application/octet-stream", False),
        (b"binary/octet-stream", False),
    ],
)
def test_what_a_browser_would_run_is_known_by_its_type(content_type: bytes, active: bool) -> None:
    assert is_active(content_type) == active
