"""More connections, handshakes, requests and bytes than a worker takes: it refuses some, and goes on with the others."""

import socket
from contextlib import ExitStack
from pathlib import Path

import pytest

from lakebed.limits import HTTP_PIPELINE_MAX
from tests.server.certificates import made
from tests.server.protocol.site import Site, answers, read_all, running_site
from tests.server.protocol.test_flow import until
from tests.server.protocol.test_requests import get

KIB = 1 << 10
MIB = 1 << 20


def test_connections_beyond_the_limit_take_a_few_descriptors_and_the_others_go_on() -> None:
    with running_site(limit=8) as site, ExitStack() as stack:
        accepted = [stack.enter_context(site.connect()) for _ in range(8)]
        for client in accepted:
            client.sendall(get(b"health"))
            assert client.recv(1000).endswith(b"fine")
        refused = [stack.enter_context(site.connect()) for _ in range(60)]
        # Each is told, or cut off to make room for the next one's answer.
        for client in refused[:-2]:
            assert read_all(client)[:12] in (b"HTTP/1.1 503", b"")
        assert all(client.recv(1000).startswith(b"HTTP/1.1 503") for client in refused[-2:])
        until(lambda: len(site.connections._members) <= 8 + 2, "no more than a few of them linger")
        for client in accepted:
            client.sendall(get(b"health"))
            assert client.recv(1000).endswith(b"fine")
        accepted[0].close()
        until(lambda: not site.connections.is_full, "there is room again")
        assert answers(site.talk(get(b"health")))[0].status == 200


def test_a_tls_handshake_counts_as_a_connection(tmp_path: Path) -> None:
    with running_site(limit=4, tls=made(tmp_path, "server").context()) as site, ExitStack() as stack:
        silent = [stack.enter_context(site.connect()) for _ in range(4)]
        until(lambda: site.connections.opening == 4, "all of them are being opened")
        with site.connect() as one_too_many:
            assert one_too_many.recv(1000) == b""
        silent[0].close()
        until(lambda: site.connections.opening == 3, "one has left")


def test_requests_are_sent_ahead_up_to_a_number(site: Site) -> None:
    with site.connect() as client:
        client.sendall(get(b"slow") + get(b"health") * 3000)
        assert site.app.seen.begun.wait(20)
        (connection,) = site.connections._members
        until(lambda: connection._ended, "the server has had enough")
        assert len(connection._queue) == HTTP_PIPELINE_MAX
        site.call(site.app.seen.go.set)
        client.shutdown(socket.SHUT_WR)
        got = answers(read_all(client))
    assert [answer.status for answer in got] == [200] * (1 + HTTP_PIPELINE_MAX) + [400]
    assert "sent ahead" in got[-1].json()["message"]


BODY = b"POST /slow HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % (200 * KIB) + b"x" * (200 * KIB)
WAITING = {
    "bodies that nobody has asked for": BODY,
    "heads without end": b"GET /slow HTTP/1.1\r\nHost: a\r\nX-A: " + b"x" * (50 * KIB),
    "large heads before a body": b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\nX-A: %b\r\n\r\n"
    % (b"x" * (50 * KIB)),
    "requests sent ahead": get(b"slow") * 60,
}


@pytest.mark.parametrize("data", WAITING.values(), ids=WAITING)
def test_what_waits_is_bounded_for_all_clients_together(data: bytes) -> None:
    with running_site(held_bytes_max=MIB) as site, ExitStack() as stack:
        most = 0
        clients = []
        refused = 0
        while not refused:
            assert len(clients) < 60, "nobody is ever refused"
            client = stack.enter_context(site.connect())
            clients.append(client)
            client.settimeout(0.05)
            try:
                client.sendall(data)
                refused += client.recv(20).startswith(b"HTTP/1.1 503")
            except (TimeoutError, ConnectionResetError):
                pass  # It waits for us, or has hung up on us.
            most = max(most, site.call(lambda: site.connections.held_bytes))
        assert MIB // 2 < most <= MIB
        assert len(clients) > 2, "one client alone is no reason"
        site.call(site.app.seen.go.set)
        assert answers(site.talk(get(b"health")))[0].body == b"fine"
    until(lambda: site.connections.held_bytes == 0, "nothing is held any more")
