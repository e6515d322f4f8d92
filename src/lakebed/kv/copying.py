"""All records of one store copied to another, of the same kind or not. Order matters.

    1. claim    put `kv-copy: moved` into the source: from here no server starts on it
    2. begin    put `kv-copy: state` into the target, which must be empty: no server starts on it either
    3. raise    the target's versions above the source's: a record never gets a version that it had before
    4. copy     records in the order of (partition, key), a batch at a time; after each, how far it is goes into `state`
    5. compare  every record of both: partition, key, names and value
    6. done     swap `moved` to done
    7. open     remove `state`: servers may use the target

| killed after | what is seen | the same command again |
|---|---|---|
| 1 | a source that is claimed | claims it again, under a new name |
| 2, 3, 4 | a target that is not finished | goes on where `state` says; a batch that was written twice is the same |
| 5, 6 | the same | compares again |
| 7 | done | says so |

A copy to another target claims the source under a new name too. The target of a copy that was cut off before holds the old
name, and is refused from then on: of all targets, one is finished.

`moved` stays in the source: two installations over one storage would delete each other's objects, since each collects what
it does not refer to. `release` takes it back, for a copy that is thrown away. Neither store may be in use. Drivers say whether
other processes have one open; they are asked before step 1 and again after step 2, since a server opens its database before it
looks for a claim. Step 5 finds what was written to the source behind the copy.

Versions are given anew. What compares them lives in one process or one call, and no process outlives the copy; what is stored
(tokens of compaction, names of fences) is copied as it is, so the epoch of compaction need not be raised.
"""

from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, TypeVar, cast

import msgspec

from lakebed.errors import ConflictError, CorruptError, ErrorKind, InvalidInputError, UnavailableError
from lakebed.kv.port import Expect, KVStore, Version

T = TypeVar("T")

COPY_PARTITION: Final = "kv-copy"
_MOVED: Final = b"moved"
_STATE: Final = b"state"


class Record(msgspec.Struct, frozen=True):
    """A stored value with everything but its version."""

    partition: str
    key: bytes
    value: bytes
    names: tuple[bytes, ...] = ()


@dataclass(frozen=True, slots=True)
class Place:
    """Where a record lies, in the order of a copy."""

    partition: str
    key: bytes


class CopyableKV(KVStore, Protocol):
    """A `KVStore` that can be copied, and copied to."""

    def records(self, *, after: Place | None = None) -> AsyncIterator[Sequence[Record]]:
        """Yield everything behind a place, by partition and key as bytes; a page is a few MiB."""
        ...

    async def load(self, records: Sequence[Record]) -> None:
        """Write records whatever is there, each with a new version, in one step."""
        ...

    async def last_version(self) -> Version:
        """Return the greatest version that was ever given."""
        ...

    async def raise_version(self, least: Version) -> None:
        """Give only versions above `least` from now on."""
        ...

    async def other_users(self) -> list[str]:
        """Return which other processes have the store open, in words; no driver can see all of them."""
        ...


class _Moved(msgspec.Struct):
    copy: str
    to: str
    done: bool = False


class _State(msgspec.Struct):
    copy: str
    rows: int = 0
    size: int = 0
    at: tuple[str, bytes] | None = None
    differs: bool = False
    """The target was found to differ from the source: it is emptied before the copy begins again."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a copy is."""

    doing: str
    """`copied` or `compared`."""
    rows: int
    size: int
    """Bytes of values."""


def copyable(kv: KVStore) -> CopyableKV:
    """Return the store as one that can be copied.

    Raises:
        InvalidInputError: `UNSUPPORTED`: its driver cannot do that.
    """
    if not all(hasattr(kv, name) for name in ("records", "load", "last_version", "raise_version")):
        raise InvalidInputError(ErrorKind.UNSUPPORTED, f"{type(kv).__name__} cannot be copied")
    return cast("CopyableKV", kv)


async def require_in_place(kv: KVStore) -> None:
    """Refuse a store that is being copied to, or was copied elsewhere.

    Raises:
        InvalidInputError: `INVALID_CONFIG`.
    """
    moved, state = await kv.get_many([(COPY_PARTITION, _MOVED), (COPY_PARTITION, _STATE)])
    if state is not None:
        raise InvalidInputError(
            ErrorKind.INVALID_CONFIG,
            "a copy into this database is not finished: run the same `lakebed kv copy` again",
        )
    if moved is not None:
        found = msgspec.msgpack.decode(moved.value, type=_Moved)
        raise InvalidInputError(
            ErrorKind.INVALID_CONFIG,
            f"this database was copied to {found.to}: use that one. Two installations over one storage delete each other's "
            "objects. If the copy is gone, run `lakebed kv release` with this database",
        )


async def release(kv: KVStore) -> bool:
    """Let a store that was copied be used again; return whether it had been copied."""
    if await kv.get(COPY_PARTITION, _MOVED) is None:
        return False
    await kv.delete_rows(COPY_PARTITION, [_MOVED])
    return True


async def copy_store(
    source: CopyableKV, target: CopyableKV, *, copy: str, to: str, tell: Callable[[Progress], None]
) -> Progress:
    """Copy everything, or go on with a copy that was cut off; return what was compared at the end.

    `copy` is a new random name, `to` says in words where the target is.

    Raises:
        InvalidInputError: `INVALID_ARGUMENT`: the target is not empty; the source was copied elsewhere before.
        UnavailableError: `IN_USE`: another process has one of them open.
        CorruptError: `UNREADABLE`: the two differ at the end.
    """
    await _require_unused(source, target)
    state = await _begin(source, target, copy=copy, to=to)
    # A server that opened the source before the claim may have missed it.
    await _require_unused(source, target)
    if state.differs:
        state = await _emptied(target, state)
    await target.raise_version(await source.last_version())
    await _copy(source, target, state, tell)
    compared = await _compare(source, target, state, tell)
    await _put(source, _MOVED, _Moved(state.copy, to, done=True))
    await target.delete_rows(COPY_PARTITION, [_STATE])
    return compared


async def _require_unused(source: CopyableKV, target: CopyableKV) -> None:
    for name, store in (("source", source), ("target", target)):
        if users := await store.other_users():
            raise UnavailableError(
                ErrorKind.IN_USE,
                f"the {name} is in use ({', '.join(users)}): stop all servers and compactors, then try again",
            )


async def _begin(source: CopyableKV, target: CopyableKV, *, copy: str, to: str) -> _State:
    claim, state = await source.get(COPY_PARTITION, _MOVED), await _read(target, _STATE, _State)
    moved = None if claim is None else msgspec.msgpack.decode(claim.value, type=_Moved)
    if await source.get(COPY_PARTITION, _STATE) is not None:
        raise _invalid(
            "the source is itself the target of a copy that is not finished: finish that one first"
        )
    if moved is not None and moved.done and (state is None or state.copy != moved.copy):
        raise _invalid(
            f"the source was copied to {moved.to} already. If that copy is gone, run `lakebed kv release` with the source"
        )
    if state is not None and (moved is None or state.copy != moved.copy):
        raise _invalid(
            "the target holds another copy that is not finished, of this source or of another: empty it first"
        )
    if state is None:
        async for records in target.records():
            raise _invalid(f"the target is not empty: it holds {records[0].partition!r}. Choose an empty one")
        # A new name, so that the target of a copy that was cut off before is never finished beside this one.
        expected = Expect.ABSENT if claim is None else claim.version
        try:
            await source.swap(
                COPY_PARTITION, _MOVED, msgspec.msgpack.encode(_Moved(copy, to)), expected=expected
            )
        except ConflictError as error:
            raise _invalid("another copy of the source has just begun: wait for it") from error
        state = _State(copy)
        await _put(target, _STATE, state)
    return state


async def _copy(
    source: CopyableKV, target: CopyableKV, state: _State, tell: Callable[[Progress], None]
) -> None:
    after = Place(*state.at) if state.at is not None else None
    async for page in source.records(after=after):
        records = [record for record in page if record.partition != COPY_PARTITION]
        if records:
            await target.load(records)
        state.rows += len(records)
        state.size += sum(len(record.value) for record in records)
        state.at = (page[-1].partition, page[-1].key)
        await _put(target, _STATE, state)
        tell(Progress("copied", state.rows, state.size))


async def _compare(
    source: CopyableKV, target: CopyableKV, state: _State, tell: Callable[[Progress], None]
) -> Progress:
    rows = size = 0
    theirs = _Flat(target.records())
    async for page in source.records():
        ours = [record for record in page if record.partition != COPY_PARTITION]
        for record, other in zip(ours, await theirs.take(len(ours)), strict=True):
            if record != other:
                await _start_over(target, state)
                raise _different(record)
        rows += len(ours)
        size += sum(len(record.value) for record in ours)
        tell(Progress("compared", rows, size))
    [surplus] = await theirs.take(1)
    if surplus is not None:
        await _start_over(target, state)
        raise _different(surplus)
    return Progress("compared", rows, size)


class _Flat:
    """Pages of records, taken so many at a time."""

    def __init__(self, pages: AsyncIterator[Sequence[Record]]) -> None:
        self._pages = pages
        self._waiting: list[Record] = []

    async def take(self, count: int) -> list[Record | None]:
        """Return the next records, and None for each that is missing at the end."""
        while len(self._waiting) < count:
            page = await anext(self._pages, None)
            if page is None:
                break
            self._waiting += [record for record in page if record.partition != COPY_PARTITION]
        taken, self._waiting = self._waiting[:count], self._waiting[count:]
        return [*taken, *[None] * (count - len(taken))]


async def _start_over(target: CopyableKV, state: _State) -> None:
    await _put(target, _STATE, _State(state.copy, differs=True))


async def _emptied(target: CopyableKV, state: _State) -> _State:
    """Drop everything but the state, and return that of a copy that begins."""
    found: set[str] = set()
    async for records in target.records():
        found.update(record.partition for record in records)
    for partition in sorted(found - {COPY_PARTITION}):
        await target.drop(partition)
    begun = _State(state.copy)
    await _put(target, _STATE, begun)
    return begun


async def _read(kv: KVStore, key: bytes, kind: type[T]) -> T | None:
    item = await kv.get(COPY_PARTITION, key)
    return None if item is None else msgspec.msgpack.decode(item.value, type=kind)


async def _put(kv: KVStore, key: bytes, value: msgspec.Struct) -> None:
    await kv.swap(COPY_PARTITION, key, msgspec.msgpack.encode(value), expected=Expect.ANY)


def _different(record: Record) -> CorruptError:
    return CorruptError(
        ErrorKind.UNREADABLE,
        f"the copy differs from the source at {record.key!r} of {record.partition!r}: something wrote to one of them "
        "meanwhile. Stop all servers and compactors, and run the command again: it copies everything once more",
    )


def _invalid(message: str) -> InvalidInputError:
    return InvalidInputError(ErrorKind.INVALID_ARGUMENT, message)
