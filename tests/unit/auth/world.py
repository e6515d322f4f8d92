"""An installation in memory: time that a test owns, one KV, as many processes as a test wants."""

from dataclasses import replace

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
