"""Whose turn maintenance is: one process of an installation does it, and another takes over when that one dies.

    take    read the record; free, expired or one's own: swap it, with a new end, at the version that was read
    move    swap how far the pass over all repositories has come
    release swap it free: the next process that looks takes it

It saves work and nothing else. Two processes that both believe to have the turn, because a clock jumped or a round took
too long, do each step twice, which is allowed of all of them.
"""

import asyncio
from contextlib import suppress
from dataclasses import replace

from lakebed.env.clock import Instant, after
from lakebed.env.ids import IdSource
from lakebed.errors import ConflictError, LakebedError
from lakebed.format.records import decode_turn, encode_turn
from lakebed.kv.port import Expect, KVStore, Version
from lakebed.limits import MAINTENANCE_TURN_SECONDS
from lakebed.model.ids import Nonce
from lakebed.model.maintenance import MaintenanceTurn
from lakebed.refs.keys import REPOSITORIES_PARTITION, TURN_KEY

# A process that stops waits no longer for a database that does not answer.
_RELEASE_SECONDS = 1.0


class TurnTaking:
    """One process's part in taking turns."""

    def __init__(self, kv: KVStore, *, ids: IdSource, round_seconds: float) -> None:
        self._kv = kv
        self._seconds = MAINTENANCE_TURN_SECONDS + 2 * round_seconds
        self._name = Nonce(ids.token())
        self._held: tuple[MaintenanceTurn, Version] | None = None

    async def take(self, now: Instant) -> MaintenanceTurn | None:
        """Return the turn, taken or renewed at engine time `now`; None if another process has it."""
        self._held = None
        item = await self._kv.get(REPOSITORIES_PARTITION, TURN_KEY)
        found = decode_turn(item.value) if item is not None else MaintenanceTurn(holder=Nonce(""), until=now)
        # An end that is too far away was written under a clock that has gone back since.
        is_held = now < found.until <= after(now, 2 * self._seconds)
        if found.holder != self._name and is_held:
            return None
        turn = replace(found, holder=self._name, until=after(now, self._seconds))
        return await self._swap(turn, item.version if item is not None else Expect.ABSENT)

    async def move(self, turn: MaintenanceTurn) -> MaintenanceTurn | None:
        """Write down how far the pass has come; None if another process has taken the turn."""
        if self._held is None:
            return None
        return await self._swap(turn, self._held[1])

    async def release(self) -> None:
        """Let another process take the turn at once, if this one has it."""
        if self._held is not None:
            turn, version = self._held
            with suppress(LakebedError, TimeoutError):  # It runs out by itself.
                async with asyncio.timeout(_RELEASE_SECONDS):
                    await self._swap(replace(turn, until=Instant(0)), version)
            self._held = None

    async def _swap(self, turn: MaintenanceTurn, expected: Version | Expect) -> MaintenanceTurn | None:
        self._held = None
        try:
            version = await self._kv.swap(
                REPOSITORIES_PARTITION, TURN_KEY, encode_turn(turn), expected=expected
            )
        except ConflictError:
            return None
        self._held = (turn, version)
        return turn
