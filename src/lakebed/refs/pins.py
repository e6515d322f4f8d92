"""Pins: what a long scan reads stays readable until it is over. Order matters.

    1. pin      write `pins/<id>`, before the branch is read
    2. read     and renew the pin at a third of its life
    3. unpin    remove it

A layer that left its branch after a live pin was made is kept (`oldest_pin`): it may be one that the reader is still going
through. One that left before, the reader cannot have seen: it read the record later. Crash after 1: the pin runs out by
itself, and the cleaner removes it.

Pins save work, not data: a reader whose layer was dropped all the same finds out by itself (`staging/reader.py`). So one
that could not renew its pin in time, because it was paused or the database was away, is told to stop by `require`
instead of finding out at the end.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace

from lakebed.env.clock import Clock, Instant
from lakebed.env.ids import IdSource
from lakebed.errors import ErrorKind, LakebedError, UnavailableError
from lakebed.format.pins import decode_pin, encode_pin
from lakebed.kv.port import Expect, KVStore
from lakebed.limits import PIN_SECONDS
from lakebed.model.ids import Nonce
from lakebed.model.pins import Pin
from lakebed.model.repository import Repository
from lakebed.refs.keys import PINS_PREFIX, pin_key
from lakebed.refs.scans import scan_records
from lakebed.refs.settle import settled_swap


class Held:
    """A pin of one's own, as long as it is renewed."""

    def __init__(self, clock: Clock, pin: Pin) -> None:
        self._clock = clock
        self.pin = pin
        self._renewed = clock.monotonic()

    def renewed(self, pin: Pin, begun: float) -> None:
        """Take down that a renewal which began then has arrived, unless there was nothing left to renew."""
        if self._is_held():
            self.pin, self._renewed = pin, begun

    def require(self) -> None:
        """Raise `UnavailableError` if the pin may have run out: what is left to read may be gone."""
        if not self._is_held():
            raise UnavailableError(
                ErrorKind.STORE_UNAVAILABLE,
                f"{self.pin.reason} was held up for so long that what it reads may be gone: start it again",
            )

    def _is_held(self) -> bool:
        return self._clock.monotonic() - self._renewed < PIN_SECONDS


class Pins:
    """The pins of every repository."""

    def __init__(self, kv: KVStore, *, clock: Clock, ids: IdSource) -> None:
        self._kv = kv
        self._clock = clock
        self._ids = ids

    @asynccontextmanager
    async def held(self, repo: Repository, reason: str) -> AsyncIterator[Held]:
        """Pin a repository while the block runs; read the branch record inside, and ask `require` between pages."""
        begun, now = self._clock.monotonic(), await self._kv.now()
        pin = Pin(id=Nonce(self._ids.token()), reason=reason, made_at=now, renewed_at=now)
        held = Held(self._clock, pin)
        held.renewed(pin, begun)
        await self._write(repo, pin)
        task = asyncio.create_task(self._renew(repo, held))
        try:
            yield held
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
            with suppress(LakebedError):  # It runs out by itself.
                await self._kv.delete_rows(repo.partition, [pin_key(pin.id)])

    async def _renew(self, repo: Repository, held: Held) -> None:
        while True:
            await self._clock.sleep(PIN_SECONDS / 3)
            begun = self._clock.monotonic()
            with suppress(LakebedError):  # The next time, or `require` will tell.
                pin = replace(held.pin, renewed_at=await self._kv.now())
                await self._write(repo, pin)
                held.renewed(pin, begun)

    async def _write(self, repo: Repository, pin: Pin) -> None:
        await settled_swap(
            self._kv,
            repo.partition,
            pin_key(pin.id),
            encode_pin(pin),
            expected=Expect.ANY,
            clock=self._clock,
            ids=self._ids,
        )


async def oldest_pin(kv: KVStore, partition: str, now: Instant) -> Instant | None:
    """Return when the oldest live pin of a repository was made, and remove those that have run out."""
    made: list[Instant] = []
    over: list[bytes] = []
    async for items in scan_records(kv, partition, PINS_PREFIX):
        for item in items:
            pin = decode_pin(item.value)
            if pin.is_live(now):
                made.append(pin.made_at)
            else:
                over.append(item.key)
    if over:
        await kv.delete_rows(partition, over)
    return min(made, default=None)
