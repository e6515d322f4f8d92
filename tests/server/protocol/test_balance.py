"""Workers that accept from one socket share its connections evenly."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from lakebed.env.clock import SystemClock
from lakebed.server.http.acceptor import Acceptor
from lakebed.server.http.balance import Balance
from lakebed.server.http.connections import Connections
from lakebed.server.http.listening import bound
from lakebed.telemetry.request_ids import RequestIds
from tests.server.protocol.site import Application


@asynccontextmanager
async def accepting(
    listening: socket.socket, balance: Balance, *slots: int
) -> AsyncIterator[list[Connections]]:
    """Accept as the workers of these slots would, each with a descriptor of its own."""
    made = [Connections(SystemClock(), RequestIds("test"), balance.of(slot), limit=100) for slot in slots]
    acceptors = [Acceptor(listening.dup(), Application(), connections) for connections in made]
    for acceptor in acceptors:
        acceptor.start()
    yield made
    for acceptor in acceptors:
        acceptor.stop()
    for connections in made:
        await connections.end(1)


async def clients(port: int, count: int) -> list[socket.socket]:
    return [await asyncio.to_thread(socket.create_connection, ("127.0.0.1", port)) for _ in range(count)]  # noqa: TID251


async def until_sum(balance: Balance, count: int) -> None:
    async with asyncio.timeout(20):
        while sum(balance.counts) < count:
            await asyncio.sleep(0.001)


async def test_connections_are_spread_evenly_and_the_numbers_follow_them() -> None:
    balance = Balance.over(2)
    with bound("127.0.0.1", 0) as listening:
        async with accepting(listening, balance, 0, 1):
            opened = await clients(listening.getsockname()[1], 32)
            await until_sum(balance, 32)
            assert max(balance.counts) - min(balance.counts) <= 4
            for client in opened:
                client.close()
            async with asyncio.timeout(20):
                while sum(balance.counts):
                    await asyncio.sleep(0.001)


async def test_a_worker_that_takes_nothing_does_not_keep_others_from_accepting() -> None:
    balance = Balance.over(2)
    with bound("127.0.0.1", 0) as listening:
        # The second one has no connections, and is dead.
        async with accepting(listening, balance, 0):
            opened = await clients(listening.getsockname()[1], 10)
            await until_sum(balance, 10)
            assert list(balance.counts) == [10, 0]
            for client in opened:
                client.close()


async def test_a_worker_without_connections_gets_the_next_ones() -> None:
    balance = Balance.over(2)
    with bound("127.0.0.1", 0) as listening:
        port = listening.getsockname()[1]
        async with accepting(listening, balance, 0):
            opened = await clients(port, 10)
            await until_sum(balance, 10)
            async with accepting(listening, balance, 1):
                opened += await clients(port, 10)
                await until_sum(balance, 20)
                # Without a preference it would be half of them; on a busy machine one or two go the other way.
                assert balance.counts[1] >= 7
                for client in opened:
                    client.close()
