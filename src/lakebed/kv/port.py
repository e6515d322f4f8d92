"""`KVStore`: the whole database dependency of lakebed, and its contract.

Anything that can be written on top of these methods is a free function
elsewhere, so that a driver stays small and cannot get the clever parts wrong.

Every write has three outcomes: it returns (done), it raises `ConflictError`
(nothing was written), or it raises `UnavailableError`. If the kind of the last is
`OUTCOME_UNKNOWN`, the write may have been applied, or may still be applied later;
any other kind promises that it was not and will not be. Drivers never repeat a
write by themselves after an unknown outcome.
"""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NewType, Protocol, TypeAlias

import msgspec

from lakebed.env.clock import Instant
from lakebed.format.spans import Spans

Version = NewType("Version", int)
"""Never repeats: no two writes of one store get the same version of a key, even if
the key was deleted in between, and a later write of a key has a greater one."""


class Expect(Enum):
    """Versions that are not numbers."""

    ABSENT = "absent"
    """The key must not exist."""
    ANY = "any"
    """Whatever is there, or nothing."""


class Item(msgspec.Struct, frozen=True):
    """A stored value together with the version to swap it by.

    Every request makes a few: a frozen dataclass takes seven times as long to make.
    """

    key: bytes
    value: bytes
    version: Version


class Page:
    """Consecutive items as columns, because a scan may be long and an object per item is dear.

    Whoever works on whole columns takes `spans`; the lists are made for those who ask.
    A driver that has items in another form makes a page of its own kind.
    """

    __slots__ = ("_keys", "_values", "_versions")

    def __init__(self, keys: list[bytes], values: list[bytes], versions: list[Version]) -> None:
        self._keys = keys
        self._values = values
        self._versions = versions

    def __len__(self) -> int:
        return len(self._keys)

    @property
    def keys(self) -> list[bytes]:
        return self._keys

    @property
    def values(self) -> list[bytes]:
        return self._values

    @property
    def versions(self) -> list[Version]:
        return self._versions

    @property
    def last_key(self) -> bytes:
        return self._keys[-1]

    def spans(self) -> tuple[Spans, Spans]:
        """Return keys and values. It takes a while for a large page: not on the event loop."""
        return Spans.of(self._keys), Spans.of(self._values)

    def items(self) -> list[Item]:
        return [Item(k, v, n) for k, v, n in zip(self.keys, self.values, self.versions, strict=True)]


@dataclass(frozen=True, slots=True)
class Row:
    """One row of `set_rows`."""

    key: bytes
    value: bytes
    expected: Version | Expect = Expect.ANY


@dataclass(frozen=True, slots=True, kw_only=True)
class NamesFence:
    """Holds while the record at (`partition`, `key`) was last swapped with `names` that begin with these.

    A missing record holds no fence. Safe against every `swap` and `remove` of that record, so it must be written by those only.
    """

    partition: str
    key: bytes
    names: tuple[bytes, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionFence:
    """Holds while the record at (`partition`, `key`) has exactly this version: never once it was removed."""

    partition: str
    key: bytes
    version: Version


Fence: TypeAlias = NamesFence | VersionFence


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """What a driver can do."""

    fences: bool
    """`fence` and `not_after` are honoured. Without them, `set_rows` refuses every call with a fence
    (`InvalidInputError`, `UNSUPPORTED`), and so does `swap`."""
    engine_time: bool
    """`now()` is the database's time, not this process's."""
    key_bytes_max: int
    value_bytes_max: int
    blocking_writes: bool = False
    """A small write holds up the event loop until it is durable: whoever writes for many lets them join first."""


class KVStore(Protocol):
    """A partitioned, ordered map with compare-and-swap.

    Linearizable per key. Keys are 1 to `key_bytes_max` bytes, ordered by unsigned
    bytes; values may be empty; partitions are non-empty text. A key or value that
    does not fit is `InvalidInputError` before anything is sent. Every method may
    raise `UnavailableError`.
    """

    @property
    def capabilities(self) -> Capabilities: ...

    async def get(self, partition: str, key: bytes) -> Item | None:
        """Return the item, or None if there is none. Missing is not an error."""
        ...

    async def get_many(self, lookups: Sequence[tuple[str, bytes]]) -> list[Item | None]:
        """Return what `get` would for each (partition, key), all from one snapshot, in one round trip."""
        ...

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
        """Replace the value if its version is still `expected`, and return the new version.

        `names` is stored with the record for `NamesFence` to compare; each swap replaces it.

        Raises:
            ConflictError: `VERSION_CHANGED`: the version differs; `FENCE_LOST`: the fence does not hold.
        """
        ...

    async def set_rows(
        self,
        partition: str,
        rows: Sequence[Row],
        *,
        fence: Fence | None = None,
        not_after: Instant | None = None,
    ) -> None:
        """Write all rows or none, in one atomic step with every check.

        If two rows have the same key, the last one counts (and the expectation of the
        first). Rows written here carry no names.

        Raises:
            ConflictError: `FENCE_LOST`: the fence does not hold; `ROW_CHANGED`: a row's version is not the
                expected one; `TOO_LATE`: engine time is past `not_after`.
        """
        ...

    async def remove(self, partition: str, key: bytes, *, expected: Version) -> None:
        """Remove the record if its version is still `expected`, in one atomic step.

        A fence on the record is lost from here on, and a record written under the key later has a greater version.

        Raises:
            ConflictError: `VERSION_CHANGED`: the version differs, or there is no record.
        """
        ...

    async def delete_rows(self, partition: str, keys: Sequence[bytes]) -> None:
        """Remove the keys, whatever their versions. Missing ones are no error. Never used on refs: see `remove`."""
        ...

    async def drop(self, partition: str, *, first: Sequence[bytes] = ()) -> None:
        """Remove a whole partition in bounded steps, the keys in `first` before any other.

        A crash in between leaves a part of it; dropping again goes on.
        """
        ...

    def scan(
        self, partition: str, *, start: bytes = b"", end: bytes | None = None, page_items_max: int = 10_000
    ) -> AsyncIterator[Page]:
        """Yield non-empty pages of the items with `start` <= key < `end`, in key order.

        A page has at most `SCAN_PAGE_BYTES` of values and one value more, however many items were asked for. It is one
        snapshot; two pages are not. Every item untouched by writers appears exactly once.
        """
        ...

    async def now(self) -> Instant:
        """Return the engine's time where it has one (`engine_time`), else this process's."""
        ...

    async def close(self) -> None:
        """Release connections and files. Calls under way end first."""
        ...


def prefix_end(prefix: bytes) -> bytes | None:
    """Return the smallest key greater than every key with `prefix`; None if there is none.

    >>> prefix_end(b"branches/")
    b'branches0'
    """
    stripped = prefix.rstrip(b"\xff")
    return stripped[:-1] + bytes([stripped[-1] + 1]) if stripped else None
