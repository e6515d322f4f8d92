"""Turns: whoever lost a race for a branch's HEAD gets its chance before those that came later.

Moving HEAD needs no lock, and someone always wins. But whoever is quick wins again and
again: of four committers one was seen to lose 43 times in ten seconds, and a long merge
loses to every small one. Courtesy ends that, and nothing but waiting times depends on it:

- An operation that has lost says so in its entry of `pending` when it begins again. Those that came later, in
  whatever process, see it there before they begin, and let it go first. It still races with those that were under
  way, each of which can beat it once. Who came first is decided by the record alone, so no two wait for each other.
- Nobody waits for longer than a few times what the lost try took: the other one may be dead. What a try has made
  serves the next one, so that a second try takes about as long as what others have changed meanwhile: whoever is
  quick does not wait for the whole of a long merge.
- In one process, those that come while another waits or tries again wait for that one, without asking the database.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from lakebed.env.clock import Clock
from lakebed.env.ids import IdSource
from lakebed.limits import (
    HEAD_LOOK_SECONDS,
    HEAD_LOOK_SECONDS_MAX,
    HEAD_PATIENCE,
    HEAD_PATIENCE_SECONDS,
    HEAD_PATIENCE_SECONDS_MAX,
)
from lakebed.model.branch import Pending
from lakebed.model.ids import BranchName, Nonce, RepoUid
from lakebed.model.repository import Repository


@dataclass(slots=True)
class _Queue:
    """The operations of this process on one branch."""

    waiting: dict["Turn", float] = field(default_factory=dict)
    """Those that have lost or let another go first, and until when those that come later wait for them."""
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when one of them has ended; the next one gets another event."""
    members: int = 0

    async def calm(self, clock: Clock) -> None:
        """Return when nobody waits here any more, or nobody can expect to be waited for."""
        at_last = clock.monotonic() + HEAD_PATIENCE_SECONDS_MAX
        while self.waiting:
            left = min(at_last, max(self.waiting.values())) - clock.monotonic()
            if left <= 0:
                return
            await self.next_end(left)

    async def next_end(self, seconds: float) -> None:
        """Return when an operation has ended, or after so many seconds."""
        try:
            async with asyncio.timeout(seconds):
                await self.ended.wait()
        except TimeoutError:
            pass

    def leave(self, turn: "Turn") -> None:
        self.waiting.pop(turn, None)
        self.ended.set()
        self.ended = asyncio.Event()


class Turn:
    """One operation's place in the queue of its branch."""

    def __init__(self, queue: _Queue, clock: Clock, ids: IdSource) -> None:
        self._queue = queue
        self._clock = clock
        self._ids = ids
        self._began = clock.monotonic()
        self._at_last: float | None = None
        self._until: dict[Nonce, float] = {}
        self.lost_seconds = 0.0
        """How long the last try took, if it was lost."""

    def begin(self) -> None:
        """Say that a try begins."""
        self._began = self._clock.monotonic()

    def lost(self) -> None:
        """Say that the try came too late. Nobody of this process begins from now on before it has ended."""
        now = self._clock.monotonic()
        self.lost_seconds = max(now - self._began, HEAD_LOOK_SECONDS)
        self._at_last = None
        self._queue.waiting[self] = now + _patience(self.lost_seconds)

    def lets(self, other: Nonce, entry: Pending) -> bool:
        """Return whether the operation that is next in line is to be waited for, or has been for long enough."""
        now, patience = self._clock.monotonic(), _patience(entry.lost_seconds)
        if self._at_last is None:
            self._at_last = now + HEAD_PATIENCE_SECONDS_MAX
        return now < min(self._at_last, self._until.setdefault(other, now + patience))

    async def wait(self, entry: Pending) -> None:
        """Return when it is time to look again whether the other one is through."""
        patience = _patience(entry.lost_seconds)
        self._queue.waiting.setdefault(self, self._clock.monotonic() + patience)
        seconds = max(HEAD_LOOK_SECONDS, min(entry.lost_seconds / 8, HEAD_LOOK_SECONDS_MAX))
        await self._queue.next_end(seconds * self._ids.jitter())


class Turns:
    """The queues of all branches."""

    def __init__(self, clock: Clock, ids: IdSource) -> None:
        self._clock = clock
        self._ids = ids
        self._queues: dict[tuple[RepoUid, BranchName], _Queue] = {}

    @asynccontextmanager
    async def join(self, repo: Repository, branch: BranchName) -> AsyncIterator[Turn]:
        """Begin an operation when those of this process that have lost have had their turn."""
        key = (repo.uid, branch)
        queue = self._queues.setdefault(key, _Queue())
        queue.members += 1
        turn = Turn(queue, self._clock, self._ids)
        try:
            await queue.calm(self._clock)
            yield turn
        finally:
            queue.leave(turn)
            queue.members -= 1
            if not queue.members:
                del self._queues[key]


def _patience(lost_seconds: float) -> float:
    return min(max(HEAD_PATIENCE * lost_seconds, HEAD_PATIENCE_SECONDS), HEAD_PATIENCE_SECONDS_MAX)
