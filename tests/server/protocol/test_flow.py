"""Slow clients, lost clients, silent clients, too many clients, and the end: memory and time stay bounded."""

import asyncio
import select
import socket
import time
from collections.abc import Callable

import pytest

from lakebed.limits import (
    HTTP_BODY_WAITING_BYTES,
    HTTP_HEAD_SECONDS,
    HTTP_IDLE_SECONDS,
    HTTP_LINGER_SECONDS,
    HTTP_STALL_SECONDS,
)
from tests.server.protocol.site import Site, answers, read_all, running_site
from tests.server.protocol.test_requests import get, post

MIB = 1 << 20


def until(reached: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + 20
    while not reached():
        assert time.monotonic() < end, f"never: {what}"
        time.sleep(0.005)


def sent_until_stuck(client: socket.socket) -> int:
    """Send until nobody takes more; return how much was taken."""
    sent = 0
    client.setblocking(False)
    while select.select([], [client], [], 1)[1] and sent < 100 * MIB:
        sent += client.send(b"x" * MIB)
    client.setblocking(True)
    return sent


def test_an_upload_waits_for_the_application_and_not_in_our_memory(site: Site) -> None:
    with site.connect() as client:
        client.sendall(b"POST /sip HTTP/1.1\r\nHost: a\r\nContent-Length: 50000000\r\n\r\nbegin")
        assert site.app.seen.begun.wait(20)
        sent = 5 + sent_until_stuck(client)
        assert sent < 100 * MIB
        (connection,) = site.connections._members
        waiting = connection._current.waiting_bytes
        assert HTTP_BODY_WAITING_BYTES < waiting <= 2 * HTTP_BODY_WAITING_BYTES
        # The rest of what was sent is in the kernel's buffers.
        site.call(site.app.seen.go.set)
        client.sendall(b"x" * (50_000_000 - sent))
        client.shutdown(socket.SHUT_WR)
        (answer,) = answers(read_all(client))
        assert answer.body == b"50000000"
        until(lambda: site.connections.held_bytes == 0, "nothing is held any more")


def test_one_piece_of_a_body_is_read_before_the_application_asks_for_it(site: Site) -> None:
    with site.connect() as client:
        client.sendall(b"POST /slow HTTP/1.1\r\nHost: a\r\nContent-Length: 50000000\r\n\r\n")
        assert site.app.seen.begun.wait(20)
        sent = sent_until_stuck(client)
        assert sent < 100 * MIB
        (connection,) = site.connections._members
        assert connection._current.waiting_bytes <= HTTP_BODY_WAITING_BYTES
        site.call(site.app.seen.go.set)
        client.sendall(b"x" * (50_000_000 - sent))
        client.shutdown(socket.SHUT_WR)
        (answer,) = answers(read_all(client))
        assert len(answer.json()["body"]) == 50_000_000


def test_a_download_waits_for_a_client_that_does_not_read(site: Site) -> None:
    count = 16_000
    with site.connect() as client:
        client.sendall(get(b"sized?n=%d" % count))
        client.shutdown(socket.SHUT_WR)
        seen = site.app.seen
        until(lambda: seen.sent_bytes > MIB, "the download begins")
        before = -1
        while before != seen.sent_bytes:
            before = seen.sent_bytes
            time.sleep(0.1)
        assert before < 64 * MIB, "only what the kernel buffers"
        (connection,) = site.connections._members
        assert site.call(connection.transport.get_write_buffer_size) < MIB // 2
        received = 0
        while part := client.recv(MIB):
            received += len(part)
    assert received > count * 65536
    assert seen.sent_bytes == count * 65536


def test_an_application_hears_of_a_client_that_hangs_up_during_an_upload(site: Site) -> None:
    with site.connect() as client:
        client.sendall(b"POST /upload HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\nbegin")
        assert site.app.seen.begun.wait(20)
    assert site.app.seen.gone.wait(20)
    assert site.app.seen.received_bytes == 5


def test_a_client_that_only_breaks_its_body_off_is_told(site: Site) -> None:
    (answer,) = answers(site.talk(b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\nbegin"))
    assert (answer.status, answer.headers["connection"]) == (499, "close")


def test_a_download_stops_when_its_client_is_gone(site: Site) -> None:
    with site.connect() as client:
        client.sendall(get(b"sized?n=100000"))
        client.recv(1000)
    until(lambda: not site.connections._members, "the server notices")
    assert site.app.seen.sent_bytes < 100_000 * 65536


def test_a_request_that_was_whole_is_finished_for_a_client_that_is_gone(site: Site) -> None:
    with site.connect() as client:
        client.sendall(post(b"slow", b"kept"))
        assert site.app.seen.begun.wait(20)
    site.call(site.app.seen.go.set)
    until(lambda: not site.connections._members, "the server is done with it")
    assert (site.app.seen.received_bytes, site.app.seen.disconnects) == (4, 0)


@pytest.mark.parametrize(
    ("sent", "seconds", "answered"),
    [
        (b"", HTTP_HEAD_SECONDS, b""),
        (b"GET /health HTTP/1.1\r\nHost:", HTTP_HEAD_SECONDS, b"HTTP/1.1 408 "),
        (get(b"health"), HTTP_IDLE_SECONDS, b""),
        (get(b"health") + b"GET /hea", HTTP_HEAD_SECONDS, b"HTTP/1.1 408 "),
        (b"POST /early HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n", HTTP_HEAD_SECONDS, b""),
        (b"POST /upload HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nx", HTTP_STALL_SECONDS, b""),
        (b"NOISE", HTTP_LINGER_SECONDS, b""),
    ],
    ids=[
        "nothing",
        "half a head",
        "idle",
        "half a second head",
        "unwanted body",
        "stalled body",
        "lingering",
    ],
)
def test_no_client_is_waited_for_for_ever(site: Site, sent: bytes, seconds: float, answered: bytes) -> None:
    with site.connect() as client:
        client.sendall(sent)
        until(lambda: len(site.connections._members) == 1, "the server has it")
        if b"\r\n\r\n" in sent and b"upload" not in sent:
            assert client.recv(1000).startswith(b"HTTP/1.1 ")
        if b"upload" in sent:
            assert site.app.seen.begun.wait(20)
        if sent == b"NOISE":
            assert client.recv(1000).startswith(b"HTTP/1.1 405")
        (connection,) = site.connections._members
        until(lambda: connection.deadline < float("inf"), "it is the client's turn")
        site.later(seconds - 2)
        assert connection.deadline < float("inf"), "it still is"
        assert not connection.gone
        site.later(4)
        assert read_all(client)[: len(answered) or None] == answered


def test_nobody_counts_the_time_while_the_application_works(site: Site) -> None:
    with site.connect() as client:
        client.sendall(get(b"slow"))
        assert site.app.seen.begun.wait(20)
        site.later(1e6)
        site.call(site.app.seen.go.set)
        client.shutdown(socket.SHUT_WR)
        assert answers(read_all(client))[0].status == 200


def test_one_client_too_many_is_refused_in_words() -> None:
    with running_site(limit=2) as site, site.connect() as one, site.connect() as two:
        for client in (one, two):
            client.sendall(get(b"health"))
            assert client.recv(1000).endswith(b"fine")
        (answer,) = answers(site.talk(b""))
        assert answer.status == 503
        one.close()
        until(lambda: len(site.connections._members) == 1, "one has left")
        assert answers(site.talk(get(b"health")))[0].status == 200


def test_at_the_end_what_was_begun_is_answered_and_idle_clients_are_left() -> None:
    with running_site() as site, site.connect() as idle, site.connect() as busy:
        idle.sendall(get(b"health"))
        assert idle.recv(1000).endswith(b"fine")
        busy.sendall(get(b"slow") + get(b"health"))
        assert site.app.seen.begun.wait(20)
        ended = asyncio.run_coroutine_threadsafe(site.connections.end(20), site.loop)
        assert idle.recv(1000) == b""
        site.call(site.app.seen.go.set)
        (answer,) = answers(read_all(busy))
        assert (answer.status, answer.headers["connection"]) == (200, "close")
        ended.result(20)


def test_at_the_end_a_client_that_never_ends_its_request_is_cut_off() -> None:
    with running_site() as site, site.connect() as stuck:
        stuck.sendall(b"POST /upload HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nx")
        assert site.app.seen.begun.wait(20)
        asyncio.run_coroutine_threadsafe(site.connections.end(0.01), site.loop).result(20)
        assert site.app.seen.gone.wait(20)
        assert read_all(stuck) == b""
