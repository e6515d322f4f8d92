"""`Connections`: what all clients of a worker share: their number, what is held of their requests, the time, the end.

Every socket that was accepted counts, from before its TLS handshake until it is closed. Those beyond the limit are told
so, and a bounded number of them get the time to hear it; the one that was told first makes room for the next.
"""

import asyncio
from typing import Final, Protocol

from lakebed.env.clock import Clock
from lakebed.limits import HTTP_HELD_BYTES_MAX, HTTP_HELD_UPLOADS_FACTOR, HTTP_REFUSED_MAX
from lakebed.server.http.balance import Balance
from lakebed.server.http.reply_head import date_line
from lakebed.telemetry.request_ids import RequestIds

_TICK_SECONDS: Final = 1.0


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

    def __init__(
        self,
        clock: Clock,
        request_ids: RequestIds,
        balance: Balance,
        *,
        limit: int,
        held_bytes_max: int = HTTP_HELD_BYTES_MAX,
    ) -> None:
        self.loop = asyncio.get_running_loop()
        self.balance = balance
        balance.note(0)
        self.request_ids = request_ids
        self._clock = clock
        self._limit = limit
        self._members: set[Member] = set()
        self._refused: dict[Member, None] = {}
        """Those beyond the limit, the one that was refused first in front."""
        self._refused_max = max(1, min(HTTP_REFUSED_MAX, limit // 4))
        self.opening = 0
        """Sockets that are accepted and no members yet: TLS handshakes."""
        self.held_bytes = 0
        self._held_bytes_max = held_bytes_max
        self.pressing_bytes = held_bytes_max // 2
        """When so much is held, clients wait before they send more."""
        self._ending = False
        self._empty = asyncio.Event()
        self._empty.set()
        self.now = 0.0
        self.date = b""
        self._tick()

    @property
    def is_full(self) -> bool:
        """Whether there is no room for another connection."""
        return len(self._members) - len(self._refused) + self.opening >= self._limit

    def holds_too_much(self, *, let_in: bool) -> bool:
        """Return whether a request that wants to stay must go; `let_in` if the application has asked for its body."""
        factor = HTTP_HELD_UPLOADS_FACTOR if let_in else 1
        return self.held_bytes > self._held_bytes_max * factor

    def join(self, member: Member) -> bool:
        """Count a connection; return whether there is room for it. Either way it must leave."""
        # The one that joins is still being opened.
        others = len(self._members) - len(self._refused) + max(0, self.opening - 1)
        if self._ending:
            self.loop.call_soon(member.stop)  # It was being opened when the end began.
        self._members.add(member)
        self.balance.note(len(self._members))
        self._empty.clear()
        if others < self._limit:
            return True
        self._refused[member] = None
        if len(self._refused) > self._refused_max:
            next(iter(self._refused)).abort()
        return False

    def leave(self, member: Member) -> None:
        self._members.discard(member)
        self._refused.pop(member, None)
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
