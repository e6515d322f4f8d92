"""The writes of the port as requests that can share one LMDB transaction.

A request checks everything before it writes anything: if it raises, it has left
no trace, and its neighbours in the transaction do not notice. It may be applied
again from the start (the map grew), so it keeps no state of its own.

What can be computed without the transaction is computed when the request is
made: the transaction keeps every other process waiting.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from lakebed.env.clock import Clock, Instant
from lakebed.errors import ConflictError, ErrorKind
from lakebed.kv.checks import version_changed
from lakebed.kv.copying import Record
from lakebed.kv.drivers.lmdb_env import Step
from lakebed.kv.drivers.lmdb_keys import (
    CHUNK_BYTES,
    SIGNPOST_BYTES,
    partition_prefix,
    prefix_below,
    row_key,
    signposts,
)
from lakebed.kv.drivers.lmdb_records import encode, header, names_of, version_of
from lakebed.kv.port import Expect, Fence, NamesFence, Row, Version, VersionFence

T_co = TypeVar("T_co", covariant=True)


class Request(Protocol[T_co]):
    """One caller's write."""

    @property
    def rows_count(self) -> int:
        """How much of a batch this request takes, in rows."""
        ...

    @property
    def bytes_count(self) -> int:
        """How much of a batch this request takes, in bytes of values."""
        ...

    def apply(self, step: Step) -> T_co:
        """Check, then write; a `ConflictError` has written nothing."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Swap:
    """`KVStore.swap`."""

    partition: str
    key: bytes
    value: bytes
    expected: Version | Expect
    names: tuple[bytes, ...]
    fence: VersionFence | None

    @property
    def rows_count(self) -> int:
        return 1

    @property
    def bytes_count(self) -> int:
        return len(self.value)

    def apply(self, step: Step) -> Version:
        _check_fence(step, self.fence)
        place = row_key(self.partition, self.key)
        if not _is_at(step, place, self.expected):
            raise version_changed(self.key, self.expected)
        version = step.next_version()
        step.remember_partition(partition_prefix(self.partition), self.partition)
        for signpost in signposts(self.partition, self.key):
            step.txn.put(signpost, b"", overwrite=False)
        step.txn.put(place, encode(version, self.value, self.names))
        return Version(version)


@dataclass(frozen=True, slots=True, kw_only=True)
class SetRows:
    """`KVStore.set_rows`."""

    partition: str
    rows: list[tuple[bytes, bytes]]
    """LMDB key and value, sorted, no key twice."""
    signposts: list[bytes]
    expected: list[tuple[bytes, bytes, Version | Expect]]
    """Key, LMDB key and version of every row that expects one."""
    fence: Fence | None
    not_after: Instant | None
    clock: Clock

    @property
    def rows_count(self) -> int:
        return len(self.rows)

    @property
    def bytes_count(self) -> int:
        return sum([len(value) for _, value in self.rows])

    def apply(self, step: Step) -> None:
        _check_fence(step, self.fence)
        if self.not_after is not None and self.clock.now() > self.not_after:
            raise ConflictError(ErrorKind.TOO_LATE, "the time for this write is over")
        for key, place, expected in self.expected:
            if not _is_at(step, place, expected):
                raise ConflictError(ErrorKind.ROW_CHANGED, f"row {key!r} is no longer at version {expected}")
        if not self.rows:
            return
        head = header(step.next_version())
        step.remember_partition(partition_prefix(self.partition), self.partition)
        cursor = step.txn.cursor()
        for signpost in self.signposts:
            cursor.put(signpost, b"", overwrite=False)
        cursor.putmulti([(place, head + value) for place, value in self.rows])


def set_rows_request(
    partition: str, rows: Sequence[Row], *, fence: Fence | None, not_after: Instant | None, clock: Clock
) -> SetRows:
    """Return the request for `rows`, of which the last of each key counts, with the expectation of its first."""
    values = {row.key: row.value for row in rows}
    if all([len(key) <= CHUNK_BYTES for key in values]):  # noqa: C419  a list is twice as fast
        prefix = partition_prefix(partition)
        placed = [(prefix + key, value) for key, value in values.items()]
        posts: list[bytes] = []
    else:
        placed = [(row_key(partition, key), value) for key, value in values.items()]
        posts = list(dict.fromkeys([post for key in values for post in signposts(partition, key)]))
    placed.sort()
    expected: list[tuple[bytes, bytes, Version | Expect]] = []
    if any([row.expected is not Expect.ANY for row in rows]):  # noqa: C419  a list is twice as fast
        first: dict[bytes, Version | Expect] = {}
        for row in rows:
            first.setdefault(row.key, row.expected)
        expected = [
            (key, row_key(partition, key), version)
            for key, version in first.items()
            if version is not Expect.ANY
        ]
    return SetRows(
        partition=partition,
        rows=placed,
        signposts=posts,
        expected=expected,
        fence=fence,
        not_after=not_after,
        clock=clock,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Remove:
    """`KVStore.remove`."""

    partition: str
    key: bytes
    expected: Version

    @property
    def rows_count(self) -> int:
        return 1

    @property
    def bytes_count(self) -> int:
        return 0

    def apply(self, step: Step) -> None:
        if not _is_at(step, row_key(self.partition, self.key), self.expected):
            raise version_changed(self.key, self.expected)
        _delete(step, self.partition, self.key)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteRows:
    """`KVStore.delete_rows`."""

    partition: str
    keys: Sequence[bytes]

    @property
    def rows_count(self) -> int:
        return len(self.keys)

    @property
    def bytes_count(self) -> int:
        return 0

    def apply(self, step: Step) -> None:
        for key in self.keys:
            _delete(step, self.partition, key)


@dataclass(frozen=True, slots=True)
class Load:
    """`CopyableKV.load`."""

    records: Sequence[Record]

    @property
    def rows_count(self) -> int:
        return len(self.records)

    @property
    def bytes_count(self) -> int:
        return sum([len(record.value) for record in self.records])

    def apply(self, step: Step) -> None:
        for record in self.records:
            step.remember_partition(partition_prefix(record.partition), record.partition)
            for signpost in signposts(record.partition, record.key):
                step.txn.put(signpost, b"", overwrite=False)
            version = step.next_version()
            step.txn.put(row_key(record.partition, record.key), encode(version, record.value, record.names))


@dataclass(frozen=True, slots=True, kw_only=True)
class DropStep:
    """One bounded step of `KVStore.drop`; its result says whether the partition is now empty."""

    partition: str
    rows_max: int

    @property
    def rows_count(self) -> int:
        return self.rows_max

    @property
    def bytes_count(self) -> int:
        return 0

    def apply(self, step: Step) -> bool:
        prefix = partition_prefix(self.partition)
        left = _drop(step, prefix, self.rows_max)
        if left > 0:
            step.forget_partition(prefix)
        return left > 0


def _drop(step: Step, prefix: bytes, rows_max: int) -> int:
    """Delete up to `rows_max` rows and signposts under `prefix`; return how many more it could have deleted."""
    cursor = step.txn.cursor()
    left = rows_max
    found = cursor.set_range(prefix)
    while left > 0 and found:
        key = cursor.key()
        if not key.startswith(prefix):
            break
        if len(key) == SIGNPOST_BYTES:
            left = _drop(step, prefix_below(key), left)
            if left <= 0:
                break
            cursor.set_key(key)
        # LMDB moves the cursor to the row after the deleted one.
        found = cursor.delete() and bool(cursor.key())
        left -= 1
    return left


def _delete(step: Step, partition: str, key: bytes) -> None:
    step.txn.delete(row_key(partition, key))
    for signpost in reversed(signposts(partition, key)):
        _remove_if_idle(step, signpost)


def _remove_if_idle(step: Step, signpost: bytes) -> None:
    """Remove `signpost` if nothing is left below it."""
    below = prefix_below(signpost)
    cursor = step.txn.cursor()
    if not (cursor.set_range(below) and cursor.key().startswith(below)):
        step.txn.delete(signpost)


def _is_at(step: Step, place: bytes, expected: Version | Expect) -> bool:
    if expected is Expect.ANY:
        return True
    record = step.txn.get(place)
    if expected is Expect.ABSENT:
        return record is None
    return record is not None and version_of(record) == expected


def _check_fence(step: Step, fence: Fence | None) -> None:
    if fence is None:
        return
    record = step.txn.get(row_key(fence.partition, fence.key))
    if record is None or not _holds(fence, record):
        raise ConflictError(ErrorKind.FENCE_LOST, f"{fence.key!r} has changed since it was read")


def _holds(fence: Fence, record: bytes) -> bool:
    match fence:
        case NamesFence(names=names):
            return names_of(record)[: len(names)] == names
        case VersionFence(version=version):
            return version_of(record) == version
