"""A store that fails as networks and databases do, when and where a plan says so. For tests.

The plan is a function from a call to the fault it meets, so a test can script one
fault at one place, and a simulation can draw them from a seed. Faults keep to the
port's contract: whatever happens here may happen with a real driver.

A late write (`AppliedLate`) is the nastiest: its caller has long been told that the
outcome is unknown, and went on, when `land` lets it arrive.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias, TypeVar, assert_never

from lakebed.env.clock import Clock, Instant
from lakebed.env.ids import IdSource
from lakebed.errors import ConflictError, ErrorKind, UnavailableError
from lakebed.kv.port import Capabilities, Expect, Fence, Item, KVStore, Page, Row, Version, VersionFence
from lakebed.limits import SCAN_PAGE_ITEMS

T = TypeVar("T")


class Operation(StrEnum):
    """The methods of the port that can fail."""

    GET = "get"
    GET_MANY = "get_many"
    SWAP = "swap"
    SET_ROWS = "set_rows"
    REMOVE = "remove"
    DELETE_ROWS = "delete_rows"
    DROP = "drop"
    SCAN = "scan"
    NOW = "now"


CONDITIONAL = frozenset({Operation.SWAP, Operation.SET_ROWS, Operation.REMOVE})
WRITES = CONDITIONAL | {Operation.DELETE_ROWS, Operation.DROP}


@dataclass(frozen=True, slots=True)
class Call:
    """What a plan decides on. `key` is the record's for `get`, `swap` and `remove`, else empty."""

    operation: Operation
    partition: str = ""
    key: bytes = b""


@dataclass(frozen=True, slots=True)
class LostRequest:
    """The request never arrives; the caller of a write cannot know that."""


@dataclass(frozen=True, slots=True)
class LostReply:
    """The request is carried out; the caller of a write cannot know that."""


@dataclass(frozen=True, slots=True)
class AppliedLate:
    """The caller of a write is told that the outcome is unknown; the write waits for `land`."""


@dataclass(frozen=True, slots=True)
class Refused:
    """No connection: nothing was sent, and the caller knows."""


@dataclass(frozen=True, slots=True)
class Conflict:
    """Someone else seems to have been faster (`swap`, `set_rows` and `remove` only)."""


@dataclass(frozen=True, slots=True)
class Delay:
    """The request arrives `seconds` later."""

    seconds: float


Fault: TypeAlias = LostRequest | LostReply | AppliedLate | Refused | Conflict | Delay
Plan: TypeAlias = Callable[[Call], Fault | None]


def no_faults(_call: Call) -> Fault | None:
    """Let everything through."""
    return None


class Script:
    """A plan that meets the next call of an operation with the next fault written down for it.

    `None` lets one call through: `Script({SWAP: [None, LostReply()]})` loses the reply of the second swap.
    """

    def __init__(self, faults: dict[Operation, list[Fault | None]]) -> None:
        self._faults = {operation: list(steps) for operation, steps in faults.items()}

    def __call__(self, call: Call) -> Fault | None:
        steps = self._faults.get(call.operation)
        return steps.pop(0) if steps else None

    @property
    def finished(self) -> bool:
        """Whether every fault was met: a script that was not is a test that did not test."""
        return not any(self._faults.values())


def chances(ids: IdSource, faults: Sequence[tuple[float, Fault]]) -> Plan:
    """Return a plan that draws from `ids` and meets a call with each fault at its probability."""

    def plan(call: Call) -> Fault | None:
        drawn = ids.jitter() - 0.5
        for probability, fault in faults:
            drawn -= probability
            if drawn < 0:
                return None if isinstance(fault, Conflict) and call.operation not in CONDITIONAL else fault
        return None

    return plan


class FaultyKV:
    """A `KVStore` in front of another one, with faults."""

    def __init__(self, inner: KVStore, *, plan: Plan, clock: Clock) -> None:
        self._inner = inner
        self._clock = clock
        self._late: list[Callable[[], Awaitable[object]]] = []
        self.plan = plan
        """May be replaced at any time."""

    async def land(self) -> int:
        """Let every late write arrive, in the order they were sent; return how many still had an effect."""
        landed = 0
        while self._late:
            send = self._late.pop(0)
            try:
                await send()
            except ConflictError:
                continue
            landed += 1
        return landed

    @property
    def capabilities(self) -> Capabilities:
        return self._inner.capabilities

    async def get(self, partition: str, key: bytes) -> Item | None:
        return await self._meet(Call(Operation.GET, partition, key), lambda: self._inner.get(partition, key))

    async def get_many(self, lookups: Sequence[tuple[str, bytes]]) -> list[Item | None]:
        return await self._meet(Call(Operation.GET_MANY), lambda: self._inner.get_many(lookups))

    async def swap(
        self,
        partition: str,
        key: bytes,
        value: bytes,
        *,
        expected: Version | Expect,
        names: tuple[bytes, ...] = (),
        fence: VersionFence | None = None,
    ) -> Version:
        return await self._meet(
            Call(Operation.SWAP, partition, key),
            lambda: self._inner.swap(partition, key, value, expected=expected, names=names, fence=fence),
            conflict=ErrorKind.VERSION_CHANGED,
        )

    async def set_rows(
        self,
        partition: str,
        rows: Sequence[Row],
        *,
        fence: Fence | None = None,
        not_after: Instant | None = None,
    ) -> None:
        await self._meet(
            Call(Operation.SET_ROWS, partition),
            lambda: self._inner.set_rows(partition, rows, fence=fence, not_after=not_after),
            conflict=ErrorKind.FENCE_LOST if fence else ErrorKind.ROW_CHANGED,
        )

    async def remove(self, partition: str, key: bytes, *, expected: Version) -> None:
        await self._meet(
            Call(Operation.REMOVE, partition, key),
            lambda: self._inner.remove(partition, key, expected=expected),
            conflict=ErrorKind.VERSION_CHANGED,
        )

    async def delete_rows(self, partition: str, keys: Sequence[bytes]) -> None:
        call = Call(Operation.DELETE_ROWS, partition)
        await self._meet(call, lambda: self._inner.delete_rows(partition, keys))

    async def drop(self, partition: str, *, first: Sequence[bytes] = ()) -> None:
        call = Call(Operation.DROP, partition)
        await self._meet(call, lambda: self._inner.drop(partition, first=first))

    async def scan(
        self,
        partition: str,
        *,
        start: bytes = b"",
        end: bytes | None = None,
        page_items_max: int = SCAN_PAGE_ITEMS,
    ) -> AsyncIterator[Page]:
        pages = aiter(self._inner.scan(partition, start=start, end=end, page_items_max=page_items_max))
        call = Call(Operation.SCAN, partition)
        while (page := await self._meet(call, lambda: anext(pages, None))) is not None:
            yield page

    async def now(self) -> Instant:
        return await self._meet(Call(Operation.NOW), self._inner.now)

    async def close(self) -> None:
        await self._inner.close()

    async def _meet(
        self, call: Call, send: Callable[[], Awaitable[T]], *, conflict: ErrorKind = ErrorKind.ROW_CHANGED
    ) -> T:
        fault = self.plan(call)
        match fault:
            case None:
                return await send()
            case Delay(seconds=seconds):
                await self._clock.sleep(seconds)
                return await send()
            case LostRequest():
                raise _lost(call)
            case LostReply():
                # Whatever the answer was, a conflict included, nobody heard it.
                with suppress(ConflictError):
                    await send()
                raise _lost(call)
            case AppliedLate():
                if call.operation in WRITES:
                    self._late.append(send)
                raise _lost(call)
            case Refused():
                raise UnavailableError(ErrorKind.STORE_UNAVAILABLE, f"{call.operation} could not be sent")
            case Conflict():
                assert call.operation in CONDITIONAL, f"{call.operation} has no conflicts"
                raise ConflictError(conflict, f"{call.operation} met a conflict that the test planned")
            case _:
                assert_never(fault)


def _lost(call: Call) -> UnavailableError:
    kind = ErrorKind.OUTCOME_UNKNOWN if call.operation in WRITES else ErrorKind.STORE_UNAVAILABLE
    return UnavailableError(kind, f"no answer to {call.operation}")
