"""Turns: who lost a race for a branch's HEAD goes before who comes later.

Moving HEAD needs no lock, and someone always wins. But whoever has just won is the
first to begin again, on a base the others have yet to read, and so tends to win
again: with four committers, one was seen to lose for ten seconds. So an operation
that has lost once keeps those that begin later waiting until it is through. It
still races with those that were under way already, each of which can beat it once.

This is courtesy within one process. Nothing depends on it but waiting times.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from weakref import WeakValueDictionary

from lakebed.model.ids import BranchName, RepoUid
from lakebed.model.repository import Repository


class Turn:
    """One operation's place in the queue of its branch."""

    def __init__(self, queue: asyncio.Lock) -> None:
        self._queue = queue
        self._holds = False

    async def take(self) -> None:
        """Let nobody begin before this operation has ended. Those who took their turn earlier come first."""
        if not self._holds:
            await self._queue.acquire()
            self._holds = True

    def end(self) -> None:
        """Let the next one go."""
        if self._holds:
            self._queue.release()
            self._holds = False


class Turns:
    """The queues of all branches. A queue goes with its last operation."""

    def __init__(self) -> None:
        self._queues: WeakValueDictionary[tuple[RepoUid, BranchName], asyncio.Lock] = WeakValueDictionary()

    @asynccontextmanager
    async def join(self, repo: Repository, branch: BranchName) -> AsyncIterator[Turn]:
        """Begin an operation as soon as nobody waits who has lost already."""
        key = (repo.uid, branch)
        queue = self._queues.get(key)
        if queue is None:
            queue = self._queues[key] = asyncio.Lock()
        async with queue:
            pass
        turn = Turn(queue)
        try:
            yield turn
        finally:
            turn.end()
