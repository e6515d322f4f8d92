"""A store that fails as networks and servers do, when and where a plan says so. For tests.

The plan is a function from a call to the fault it meets, so a test can script one
fault at one place, and a simulation can draw them from a seed. Faults keep to the
port's contract: whatever happens here may happen with a real driver.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias, TypeVar, assert_never

from lakebed.env.clock import Clock
from lakebed.env.ids import IdSource
from lakebed.errors import ErrorKind, LakebedError, UnavailableError
from lakebed.objects.port import (
    ByteRange,
    Capabilities,
    ETag,
    ObjectInfo,
    ObjectStore,
    OpenUpload,
    Part,
    PutMode,
    PutWhen,
)

T = TypeVar("T")


class Operation(StrEnum):
    """The methods of the port that can fail."""

    PUT = "put"
    PUT_STREAM = "put_stream"
    GET = "get"
    STREAM = "stream"
    HEAD = "head"
    LIST = "list"
    DELETE = "delete"
    COPY = "copy"
    SIGN = "sign"
    CREATE_UPLOAD = "create_upload"
    PUT_PART = "put_part"
    COMPLETE_UPLOAD = "complete_upload"
    ABORT_UPLOAD = "abort_upload"
    LIST_UPLOADS = "list_uploads"
    REMOVE_IF_EMPTY = "remove_if_empty"


READS = frozenset(
    {
        Operation.GET,
        Operation.STREAM,
        Operation.HEAD,
        Operation.LIST,
        Operation.SIGN,
        Operation.LIST_UPLOADS,
    }
)


@dataclass(frozen=True, slots=True)
class Call:
    """What a plan decides on. `key` is the prefix of a listing, the target of a copy, the first of many."""

    operation: Operation
    key: str = ""


@dataclass(frozen=True, slots=True)
class LostRequest:
    """The request never arrives; the caller of a write cannot know that."""


@dataclass(frozen=True, slots=True)
class LostReply:
    """The request is carried out; the caller of a write cannot know that."""


@dataclass(frozen=True, slots=True)
class Refused:
    """No connection: nothing was sent, and the caller knows."""


@dataclass(frozen=True, slots=True)
class PartialRead:
    """The connection breaks after so many bytes of an object, or entries of a listing; a `get` fails as a whole."""

    count: int


@dataclass(frozen=True, slots=True)
class Delay:
    """The request arrives `seconds` later."""

    seconds: float


Fault: TypeAlias = LostRequest | LostReply | Refused | PartialRead | Delay
Plan: TypeAlias = Callable[[Call], Fault | None]


def no_faults(_call: Call) -> Fault | None:
    """Let everything through."""
    return None


class Script:
    """A plan that meets the next call of an operation with the next fault written down for it.

    `None` lets one call through: `Script({PUT: [None, LostReply()]})` loses the reply of the second put.
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

    def plan(_call: Call) -> Fault | None:
        drawn = ids.jitter() - 0.5
        for probability, fault in faults:
            drawn -= probability
            if drawn < 0:
                return fault
        return None

    return plan


class FaultyObjects:
    """An `ObjectStore` in front of another one, with faults."""

    def __init__(self, inner: ObjectStore, *, plan: Plan, clock: Clock) -> None:
        self._inner = inner
        self._clock = clock
        self.plan = plan
        """May be replaced at any time."""

    @property
    def capabilities(self) -> Capabilities:
        return self._inner.capabilities

    async def put(self, key: str, data: bytes, *, when: PutWhen = PutMode.CREATE) -> ETag:
        return await self._meet(Call(Operation.PUT, key), lambda: self._inner.put(key, data, when=when))

    async def put_stream(
        self, key: str, chunks: AsyncIterator[bytes], *, when: PutWhen = PutMode.CREATE
    ) -> ETag:
        call = Call(Operation.PUT_STREAM, key)
        return await self._meet(call, lambda: self._inner.put_stream(key, chunks, when=when))

    async def get(self, key: str, *, byte_range: ByteRange | None = None) -> bytes:
        call = Call(Operation.GET, key)
        return await self._meet(call, lambda: self._inner.get(key, byte_range=byte_range))

    async def stream(self, key: str, *, byte_range: ByteRange | None = None) -> AsyncIterator[bytes]:
        call = Call(Operation.STREAM, key)
        left = await self._begin(call)
        async for chunk in self._inner.stream(key, byte_range=byte_range):
            if left is not None and len(chunk) > left:
                if left:
                    yield chunk[:left]
                raise _lost(call)
            left = left and left - len(chunk)
            yield chunk
        if left is not None:
            raise _lost(call)

    async def head(self, key: str) -> ObjectInfo | None:
        return await self._meet(Call(Operation.HEAD, key), lambda: self._inner.head(key))

    async def list(
        self, prefix: str = "", *, start_after: str = "", page_items_max: int = 1000
    ) -> AsyncIterator[Sequence[ObjectInfo]]:
        call = Call(Operation.LIST, prefix)
        left = await self._begin(call)
        async for page in self._inner.list(prefix, start_after=start_after, page_items_max=page_items_max):
            if left is not None and len(page) > left:
                if left:
                    yield page[:left]
                raise _lost(call)
            left = left and left - len(page)
            yield page
        if left is not None:
            raise _lost(call)

    async def delete(self, keys: Sequence[str]) -> None:
        call = Call(Operation.DELETE, keys[0] if keys else "")
        await self._meet(call, lambda: self._inner.delete(keys))

    async def copy(self, source: str, target: str) -> ETag:
        return await self._meet(Call(Operation.COPY, target), lambda: self._inner.copy(source, target))

    async def sign(
        self, method: str, key: str, *, seconds: int, answer: Mapping[str, str] | None = None
    ) -> str:
        call = Call(Operation.SIGN, key)
        return await self._meet(call, lambda: self._inner.sign(method, key, seconds=seconds, answer=answer))

    async def sign_parts(
        self, key: str, upload: str, numbers: Sequence[int], *, seconds: int
    ) -> Sequence[str]:
        call = Call(Operation.SIGN, key)
        return await self._meet(call, lambda: self._inner.sign_parts(key, upload, numbers, seconds=seconds))

    async def create_upload(self, key: str) -> str:
        return await self._meet(Call(Operation.CREATE_UPLOAD, key), lambda: self._inner.create_upload(key))

    async def put_part(self, key: str, upload: str, number: int, data: bytes) -> Part:
        call = Call(Operation.PUT_PART, key)
        return await self._meet(call, lambda: self._inner.put_part(key, upload, number, data))

    async def put_part_stream(
        self, key: str, upload: str, number: int, chunks: AsyncIterator[bytes], *, size_bytes: int
    ) -> Part:
        call = Call(Operation.PUT_STREAM, key)
        return await self._meet(
            call, lambda: self._inner.put_part_stream(key, upload, number, chunks, size_bytes=size_bytes)
        )

    async def copy_part(
        self, key: str, upload: str, number: int, source: str, *, byte_range: ByteRange | None = None
    ) -> Part:
        call = Call(Operation.PUT_PART, key)
        return await self._meet(
            call, lambda: self._inner.copy_part(key, upload, number, source, byte_range=byte_range)
        )

    async def complete_upload(self, key: str, upload: str, parts: Sequence[Part]) -> ETag:
        call = Call(Operation.COMPLETE_UPLOAD, key)
        return await self._meet(call, lambda: self._inner.complete_upload(key, upload, parts))

    async def abort_upload(self, key: str, upload: str) -> None:
        call = Call(Operation.ABORT_UPLOAD, key)
        await self._meet(call, lambda: self._inner.abort_upload(key, upload))

    async def list_uploads(self) -> AsyncIterator[Sequence[OpenUpload]]:
        call = Call(Operation.LIST_UPLOADS)
        left = await self._begin(call)
        async for page in self._inner.list_uploads():
            if left is not None:
                raise _lost(call)
            yield page
        if left is not None:
            raise _lost(call)

    async def remove_if_empty(self) -> bool:
        return await self._meet(Call(Operation.REMOVE_IF_EMPTY), self._inner.remove_if_empty)

    async def close(self) -> None:
        await self._inner.close()

    async def _begin(self, call: Call) -> int | None:
        """Return after how much the answer breaks off, or None for not at all."""
        fault = self.plan(call)
        match fault:
            case None:
                return None
            case Delay(seconds=seconds):
                await self._clock.sleep(seconds)
                return None
            case PartialRead(count=count):
                return count
            case LostRequest() | LostReply():
                return 0
            case Refused():
                raise _refused(call)
            case _:
                assert_never(fault)

    async def _meet(self, call: Call, send: Callable[[], Awaitable[T]]) -> T:
        fault = self.plan(call)
        match fault:
            case None:
                return await send()
            case Delay(seconds=seconds):
                await self._clock.sleep(seconds)
                return await send()
            case LostRequest():
                raise _lost(call)
            case LostReply() | PartialRead():
                # Whatever the answer was, a refusal included, nobody heard it.
                with suppress(LakebedError):
                    await send()
                raise _lost(call)
            case Refused():
                raise _refused(call)
            case _:
                assert_never(fault)


def _lost(call: Call) -> UnavailableError:
    kind = ErrorKind.STORE_UNAVAILABLE if call.operation in READS else ErrorKind.OUTCOME_UNKNOWN
    return UnavailableError(kind, f"no answer to {call.operation} {call.key!r}")


def _refused(call: Call) -> UnavailableError:
    return UnavailableError(ErrorKind.STORE_UNAVAILABLE, f"{call.operation} {call.key!r} could not be sent")
