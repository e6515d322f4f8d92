"""Turns: whoever lost a race for a branch's HEAD gets its chance before whoever won it tries again.

Moving HEAD needs no lock, and someone always wins. But whoever has just won is the
first to begin again, on a base the others have yet to read, and so tends to win
again: of four committers one was seen to lose 43 times in ten seconds. Two rules
of courtesy end that, and nothing but waiting times depends on them:

- In one process, an operation that has lost keeps those that begin later waiting until it is
  through. It still races with those that were under way, each of which can beat it once.
- Other processes cannot be kept waiting. So after a win over others, the next operation of this
  process begins only when they have had as long as the win took: enough for a try of their own.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from lakebed.env.clock import Clock
from lakebed.limits import HEAD_PAUSE_SECONDS_MAX
from lakebed.model.ids import BranchName, RepoUid
from lakebed.model.repository import Repository

# Beyond this many branches, those that nobody waits for are forgotten.
_QUEUES_MAX = 1_000


@dataclass(slots=True)
class _Queue:
    losers: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held by the operation whose turn it is, wanted by those that have lost too, in that order."""
    not_before: float = 0.0


class Turn:
    """One operation's place in the queue of its branch."""

    def __init__(self, queue: _Queue, clock: Clock) -> None:
        self._queue = queue
        self._clock = clock
        self._holds = False
        self._began = clock.monotonic()

    def begin(self) -> None:
        """Say that a try begins."""
        self._began = self._clock.monotonic()

    async def lost(self) -> None:
        """Return when it is this operation's turn. Nobody of this process begins before it has ended."""
        if not self._holds:
            await self._queue.losers.acquire()
            self._holds = True

    def won(self, *, contended: bool) -> None:
        """Say that the try succeeded, and whether others were trying at the same time."""
        now = self._clock.monotonic()
        if contended:
            self._queue.not_before = now + min(now - self._began, HEAD_PAUSE_SECONDS_MAX)

    def end(self) -> None:
        """Let the next one go."""
        if self._holds:
            self._queue.losers.release()
            self._holds = False


class Turns:
    """The queues of all branches."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._queues: dict[tuple[RepoUid, BranchName], _Queue] = {}

    @asynccontextmanager
    async def join(self, repo: Repository, branch: BranchName) -> AsyncIterator[Turn]:
        """Begin an operation when those that have lost, here or elsewhere, have had their turn."""
        queue = self._queue(repo, branch)
        async with queue.losers:
            pass
        pause = queue.not_before - self._clock.monotonic()
        if pause > 0:
            await self._clock.sleep(pause)
        turn = Turn(queue, self._clock)
        try:
            yield turn
        finally:
            turn.end()

    def _queue(self, repo: Repository, branch: BranchName) -> _Queue:
        key = (repo.uid, branch)
        queue = self._queues.get(key)
        if queue is None:
            if len(self._queues) >= _QUEUES_MAX:
                self._queues = {k: q for k, q in self._queues.items() if q.losers.locked()}
            queue = self._queues[key] = _Queue()
        return queue
