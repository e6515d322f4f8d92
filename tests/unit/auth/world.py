"""An installation in memory: time that a test owns, one KV, as many processes as a test wants."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

from lakebed.auth.auth import Auth, build_auth
from lakebed.auth.keys import AUTH_PARTITION
from lakebed.auth.statements import StatementDocument
from lakebed.env.clock import SECOND, Instant, after
from lakebed.env.ids import SeededIds
from lakebed.kv.drivers.memory import MemoryKV
from lakebed.kv.port import KVStore
from lakebed.model.auth import KeyPair

KEY = b"the key of an installation, 32 b"
PAIR = KeyPair(
    access_key_id="AKIAIOSFOLQUICKSTART", secret_access_key="wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
)
START = Instant(1_700_000_000 * SECOND)


class OwnedClock:
    """Time stands still until somebody sleeps or the test moves it."""

    def __init__(self) -> None:
        self.instant = START

    def now(self) -> Instant:
        return self.instant

    def monotonic(self) -> float:
        return self.instant / SECOND

    async def sleep(self, seconds: float) -> None:
        self.advance(seconds)

    def advance(self, seconds: float) -> None:
        self.instant = after(self.instant, seconds)


class Interleaved:
    """A store whose calls take turns, by a seed: without it, nothing in memory ever waits for anything."""

    def __init__(self, inner: KVStore, seed: int) -> None:
        self._inner = inner
        self._ids = SeededIds(seed)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def get(self, *args: Any) -> Any:
        return await self._in_turn(self._inner.get, *args)

    async def get_many(self, *args: Any) -> Any:
        return await self._in_turn(self._inner.get_many, *args)

    async def set_rows(self, *args: Any) -> Any:
        return await self._in_turn(self._inner.set_rows, *args)

    async def _in_turn(self, call: Callable[..., Awaitable[Any]], *args: Any) -> Any:
        await self._others()
        result = await call(*args)
        await self._others()
        return result

    async def _others(self) -> None:
        for _ in range(int(4 * (self._ids.jitter() - 0.5))):
            await asyncio.sleep(0)


class World:
    def __init__(self, *, remote: bool = False) -> None:
        self.clock = OwnedClock()
        self.kv = MemoryKV(clock=self.clock)
        self.kv.capabilities = replace(self.kv.capabilities, engine_time=remote)
        self._seed = 0
        self.auth = self.process()

    def process(self, *, kv: KVStore | None = None, key: bytes = KEY) -> Auth:
        self._seed += 1
        return build_auth(kv or self.kv, key=key, clock=self.clock, ids=SeededIds(self._seed))

    def interleaved(self, seed: int) -> Auth:
        """Another process, whose calls interleave with those of others."""
        return self.process(kv=Interleaved(self.kv, seed))

    async def stored_bytes(self) -> bytes:
        """Every key and value of the installation."""
        return b"\n".join(
            [
                part
                async for page in self.kv.scan(AUTH_PARTITION)
                for item in page.items()
                for part in (item.key, item.value)
            ]
        )


def allow(*actions: str, resource: str = "*") -> StatementDocument:
    return StatementDocument(effect="allow", action=actions, resource=resource)


def deny(*actions: str, resource: str = "*") -> StatementDocument:
    return StatementDocument(effect="deny", action=actions, resource=resource)
