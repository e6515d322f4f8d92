"""`Connections`: what all clients of a worker share: their number, the time, the end."""

import asyncio
from typing import Protocol

from lakebed.env.clock import Clock
from lakebed.server.http.balance import Balance
from lakebed.server.http.reply_head import date_line
from lakebed.telemetry.request_ids import RequestIds

_TICK_SECONDS = 1.0


class Member(Protocol):
    """A connection, as this module sees it."""

    deadline: float

    def stop(self) -> None: ...
    def expire(self) -> None: ...
    def abort(self) -> None: ...


class Connections:
    """The connections of one worker.

    Time moves by the second: one timer looks at all deadlines and writes the date once,
    where a timer for each request would cost as much as parsing it.
    """

    def __init__(self, clock: Clock, request_ids: RequestIds, balance: Balance, *, limit: int) -> None:
        self.loop = asyncio.get_running_loop()
        self.balance = balance
        balance.note(0)
        self.request_ids = request_ids
        self._clock = clock
        self._limit = limit
        self._members: set[Member] = set()
        self._ending = False
        self._empty = asyncio.Event()
        self._empty.set()
        self.now = 0.0
        self.date = b""
        self._tick()

    def join(self, member: Member) -> bool:
        """Count a connection; return whether there is room for it. Either way it must leave."""
        if self._ending:
            self.loop.call_soon(member.stop)  # It was being opened when the end began.
        self._members.add(member)
        self.balance.note(len(self._members))
        self._empty.clear()
        return len(self._members) <= self._limit

    def leave(self, member: Member) -> None:
        self._members.discard(member)
        self.balance.note(len(self._members))
        if not self._members:
            self._empty.set()

    def look(self) -> None:
        """Look at the clock, and end what waits too long."""
        self.now = self._clock.monotonic()
        self.date = date_line(self._clock.now())
        for member in [each for each in self._members if each.deadline < self.now]:
            member.expire()

    async def end(self, seconds: float) -> None:
        """Let every request that was begun be answered, for so long; then hang up."""
        self._ending = True
        for member in list(self._members):
            member.stop()
        try:
            await asyncio.wait_for(self._empty.wait(), seconds)
        except TimeoutError:
            for member in list(self._members):
                member.abort()
            await self._empty.wait()
        self._timer.cancel()

    def _tick(self) -> None:
        self.look()
        self._timer = self.loop.call_later(_TICK_SECONDS, self._tick)
