"""The port on PostgreSQL: the default for more than one machine.

Every call is one statement on a pooled connection in autocommit, so one round
trip and nothing to roll back. What a write's failure means:

- no connection could be had: `STORE_UNAVAILABLE`, nothing was sent;
- the server answered with an error: it rolled back. A deadlock is repeated here, the rest is told;
- the connection broke, or no answer came in time: `OUTCOME_UNKNOWN`.

Reads are repeated once on a fresh connection. Connections that the server closed
while they were idle are noticed before anything is sent on them, so a restarted
server costs a moment, not an unknown outcome. During an outage the pool tries to
connect every second or two, however long it lasts.

Rows under a `NamesFence` are safe against every `swap` of the record; nobody
writes a branch record in another way (see `postgres_schema` for the locks).
"""

import asyncio
import os
import select
import socket
from collections.abc import AsyncIterator, Sequence
from hashlib import blake2b
from itertools import count
from typing import Any, Final, LiteralString

import numpy as np
import psycopg
from psycopg import AsyncConnection
from psycopg.types.numeric import Int8
from psycopg_pool import AsyncConnectionPool, PoolClosed, PoolTimeout

from lakebed.env.clock import Clock, Instant
from lakebed.errors import ConflictError, ErrorKind, InvalidInputError, LakebedError, UnavailableError
from lakebed.format.spans import Spans
from lakebed.kv.checks import (
    check_fence_supported,
    check_key,
    check_keys,
    check_partition,
    check_rows,
    check_value,
    version_changed,
)
from lakebed.kv.copying import Place, Record
from lakebed.kv.drivers import postgres_schema as schema
from lakebed.kv.drivers.postgres_page import JoinedPage
from lakebed.kv.port import (
    Capabilities,
    Expect,
    Fence,
    Item,
    KVStore,
    NamesFence,
    Page,
    Row,
    Version,
    VersionFence,
)
from lakebed.kv.wrappers.shared_reads import SharedReads
from lakebed.limits import (
    BACKOFF_SECONDS,
    COPY_PAGE_BYTES,
    COPY_PAGE_ROWS,
    DROP_STEP_ROWS,
    KV_KEY_BYTES_MAX,
    KV_VALUE_BYTES_MAX,
    POSTGRES_ATTEMPTS_MAX,
    POSTGRES_CONNECT_SECONDS,
    POSTGRES_CONNECTIONS_MAX,
    POSTGRES_RECONNECT_SECONDS,
    POSTGRES_REPLY_SECONDS,
    POSTGRES_STATEMENT_SECONDS,
    SCAN_PAGE_BYTES,
    SCAN_PAGE_ITEMS,
)

_GET: Final = "SELECT version, value FROM lakebed_kv WHERE partition = %s AND key = %s"
_GET_MANY: Final = """
SELECT l.n, r.version, r.value
FROM unnest(%s::bytea[], %s::bytea[]) WITH ORDINALITY AS l (p, k, n)
JOIN lakebed_kv r ON r.partition = l.p AND r.key = l.k
"""
# A page is one row: the server joins its columns in a fifth of the time that the client takes to part its rows.
_JOINED: Final = """
SELECT string_agg(key, ''::bytea ORDER BY key), string_agg(int4send(length(key)), ''::bytea ORDER BY key),
       string_agg(value, ''::bytea ORDER BY key), string_agg(int4send(length(value)), ''::bytea ORDER BY key),
       string_agg(int8send(version), ''::bytea ORDER BY key)
FROM """
_LISTED: Final = (
    "(SELECT key, value, version FROM lakebed_kv WHERE partition = %s AND key >= %s ORDER BY key LIMIT %s)"
)
_LISTED_TO: Final = """
(SELECT key, value, version FROM lakebed_kv WHERE partition = %s AND key >= %s AND key < %s ORDER BY key LIMIT %s)
"""
# Ends a page early by its bytes. It takes half as long again, and is left out where rows have been small so far.
_BOUNDED: Final = """
(SELECT key, value, version, sum(length(value)) OVER (ORDER BY key ROWS UNBOUNDED PRECEDING) - length(value) AS before
 FROM {listed} AS listed) AS page WHERE before <= %s
"""
_SCAN: Final = f"{_JOINED}{_LISTED} AS page"
_SCAN_TO: Final = f"{_JOINED}{_LISTED_TO} AS page"
_SCAN_BOUNDED: Final = _JOINED + _BOUNDED.replace("{listed}", _LISTED)
_SCAN_TO_BOUNDED: Final = _JOINED + _BOUNDED.replace("{listed}", _LISTED_TO)
_SWAP: Final = """
SELECT lakebed_kv_swap(%s, %s, %s, %s, %s::bytea[], %s, %s::bytea, %s::bytea, %s::bigint, %s::bigint)
"""
_SET_ROWS: Final = """
SELECT lakebed_kv_set_rows(%s, %s::bytea[], %s::bytea[], %s::bigint[], %s::bigint,
                           %s::bytea, %s::bytea, %s::bigint, %s::bytea[], %s::bigint)
"""
# The lock is granted before the row goes, as in `lakebed_kv_swap`: a join needs both sides first. If the row was changed
# while the statement waited, PostgreSQL compares the version once more.
_REMOVE: Final = """
WITH held AS MATERIALIZED (SELECT pg_advisory_xact_lock(%s))
DELETE FROM lakebed_kv USING held WHERE partition = %s AND key = %s AND version = %s RETURNING 1
"""
# Locked in the order of keys, like every other write of rows.
_DELETE: Final = """
DELETE FROM lakebed_kv WHERE partition = %s AND key IN (
    SELECT key FROM lakebed_kv WHERE partition = %s AND key = ANY(%s::bytea[]) ORDER BY key FOR UPDATE
) RETURNING 1
"""
_DROP_STEP: Final = """
WITH gone AS (
    DELETE FROM lakebed_kv WHERE partition = %s AND key IN (
        SELECT key FROM lakebed_kv WHERE partition = %s ORDER BY key LIMIT %s FOR UPDATE
    ) RETURNING 1
) SELECT count(*) FROM gone
"""
_RECORD_SIZES: Final = """
SELECT partition, key, length(value)::bigint FROM lakebed_kv WHERE (partition, key) > (%s::bytea, %s::bytea)
ORDER BY partition, key LIMIT %s
"""
_RECORDS: Final = """
SELECT partition, key, names, value FROM lakebed_kv
WHERE (partition, key) > (%s::bytea, %s::bytea) AND (partition, key) <= (%s::bytea, %s::bytea) ORDER BY partition, key
"""
_LOAD: Final = """
INSERT INTO lakebed_kv (partition, key, version, names, value)
SELECT u.p, u.k, nextval('lakebed_kv_version'),
       ARRAY(SELECT decode(substr(t.x, 2), 'hex') FROM unnest(string_to_array(u.n, ',')) WITH ORDINALITY AS t (x, o)
             ORDER BY t.o),
       u.v
FROM unnest(%s::bytea[], %s::bytea[], %s::text[], %s::bytea[]) AS u (p, k, n, v) ORDER BY u.p, u.k
ON CONFLICT (partition, key) DO UPDATE
SET version = nextval('lakebed_kv_version'), names = excluded.names, value = excluded.value
RETURNING 1
"""
_LAST_VERSION: Final = "SELECT last_value FROM lakebed_kv_version"
_RAISE_VERSION: Final = (
    "SELECT setval('lakebed_kv_version', greatest(last_value, %s)) FROM lakebed_kv_version"
)
_OTHER_USERS: Final = """
SELECT application_name, client_addr::text FROM pg_stat_activity
WHERE datname = current_database() AND application_name <> current_setting('application_name')
AND (usename = current_user AND backend_type = 'client backend' OR starts_with(application_name, 'lakebed '))
"""
_NOW: Final = "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint"

# Index scans only: a plan made while the table was small would read all of it when it is not.
_CONFIGURE: Final = f"""
SET statement_timeout = {round(POSTGRES_STATEMENT_SECONDS * 1000)};
SET default_transaction_isolation = 'read committed';
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SET jit = off;
SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off';
"""

_opened: Final = count(1)

_DEADLOCK: Final = frozenset({"40001", "40P01"})
_DISK_FULL: Final = "53100"
_TIMED_OUT: Final = "57014"
# More than the server can put into one value, or hold in memory.
_TOO_LARGE: Final = frozenset({"54000", "53200", "XX000"})
# The server went away, or says itself that it does not know what became of the statement.
_LOST: Final = frozenset({"57P01", "57P02", "57P03", "40003"})


async def open_postgres(url: str, *, clock: Clock) -> KVStore:
    """Return the store in the database that `url` names; its tables are made if they are not there."""
    return SharedReads(await PostgresKV.connect(url, clock=clock))


class PageTooLargeError(UnavailableError):
    """The server could not make one page of so many rows."""


class PostgresKV:
    """A `KVStore` in a PostgreSQL database. Make one with `connect`."""

    def __init__(self, pool: "AsyncConnectionPool[AsyncConnection]", *, clock: Clock) -> None:
        self._pool = pool
        self._clock = clock
        self._calls = 0
        self._quiet = asyncio.Event()
        self._closing = False
        self.capabilities = Capabilities(
            fences=True,
            engine_time=True,
            key_bytes_max=KV_KEY_BYTES_MAX,
            value_bytes_max=KV_VALUE_BYTES_MAX,
        )

    @classmethod
    async def connect(
        cls,
        url: str,
        *,
        clock: Clock,
        connections_max: int = POSTGRES_CONNECTIONS_MAX,
        connection_seconds: float = POSTGRES_STATEMENT_SECONDS,
    ) -> "PostgresKV":
        """Check that the database answers, make its tables, and fill the pool.

        A call waits for a connection at most `connection_seconds`.
        """
        await _prepare_database(url)
        pool: AsyncConnectionPool[AsyncConnection] = AsyncConnectionPool(
            url,
            open=False,
            min_size=min(2, connections_max),
            max_size=connections_max,
            kwargs={
                "autocommit": True,
                "application_name": _application_name(),
                "connect_timeout": POSTGRES_CONNECT_SECONDS,
            },
            configure=_configure,
            check=_check_unbroken,
            timeout=connection_seconds,
            reconnect_timeout=POSTGRES_RECONNECT_SECONDS,
            reconnect_failed=_start_over,
        )
        await pool.open()
        return cls(pool, clock=clock)

    async def get(self, partition: str, key: bytes) -> Item | None:
        check_partition(partition)
        check_key(key, self.capabilities)
        found = await self._read(_GET, (partition.encode(), key))
        return Item(key, found[0][1], found[0][0]) if found else None

    async def get_many(self, lookups: Sequence[tuple[str, bytes]]) -> list[Item | None]:
        for partition, key in lookups:
            check_partition(partition)
            check_key(key, self.capabilities)
        items: list[Item | None] = [None] * len(lookups)
        if not lookups:
            return items
        partitions = [partition.encode() for partition, _ in lookups]
        keys = [key for _, key in lookups]
        for number, version, value in await self._read(_GET_MANY, (partitions, keys)):
            items[number - 1] = Item(keys[number - 1], value, version)
        return items

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
        check_partition(partition)
        check_key(key, self.capabilities)
        check_value(value, self.capabilities)
        check_fence_supported(fence, self.capabilities)
        fenced = (
            (None, None, None, None)
            if fence is None
            else (
                fence.partition.encode(),
                fence.key,
                Int8(fence.version),
                Int8(_lock_number(fence.partition, fence.key)),
            )
        )
        lock = Int8(_lock_number(partition, key))
        [(written,)] = await self._write(
            _SWAP, (partition.encode(), key, value, _expected_number(expected), list(names), lock, *fenced)
        )
        if written == schema.FENCE_LOST:
            raise _fence_lost(fence)
        if written == schema.VERSION_CHANGED:
            raise version_changed(key, expected)
        return Version(written)

    async def set_rows(
        self,
        partition: str,
        rows: Sequence[Row],
        *,
        fence: Fence | None = None,
        not_after: Instant | None = None,
    ) -> None:
        check_partition(partition)
        check_rows(rows, self.capabilities)
        check_fence_supported(fence, self.capabilities)
        values = {row.key: row.value for row in rows}
        keys = sorted(values)
        deadline = None if not_after is None else Int8(not_after)
        [(outcome,)] = await self._write(
            _SET_ROWS,
            (
                partition.encode(),
                keys,
                [values[key] for key in keys],
                _expectations(rows, keys),
                deadline,
                *_fence_parameters(fence),
            ),
        )
        if outcome == schema.FENCE_LOST:
            raise _fence_lost(fence)
        if outcome == schema.TOO_LATE:
            raise ConflictError(ErrorKind.TOO_LATE, "the time for this write is over")

    async def remove(self, partition: str, key: bytes, *, expected: Version) -> None:
        check_partition(partition)
        check_key(key, self.capabilities)
        lock = Int8(_lock_number(partition, key))
        if not await self._write(_REMOVE, (lock, partition.encode(), key, Int8(expected))):
            raise version_changed(key, expected)

    async def delete_rows(self, partition: str, keys: Sequence[bytes]) -> None:
        check_partition(partition)
        check_keys(keys, self.capabilities)
        if keys:
            name = partition.encode()
            await self._write(_DELETE, (name, name, sorted(set(keys))))

    async def drop(self, partition: str, *, first: Sequence[bytes] = ()) -> None:
        await self.delete_rows(partition, first)
        name = partition.encode()
        gone = DROP_STEP_ROWS
        while gone == DROP_STEP_ROWS:
            [(gone,)] = await self._write(_DROP_STEP, (name, name, Int8(DROP_STEP_ROWS)))

    async def scan(
        self,
        partition: str,
        *,
        start: bytes = b"",
        end: bytes | None = None,
        page_items_max: int = SCAN_PAGE_ITEMS,
    ) -> AsyncIterator[Page]:
        check_partition(partition)
        is_small = False
        while True:
            [columns] = await self._page(partition, start, end, page_items_max, is_small=is_small)
            keys, key_sizes, values, value_sizes, versions = columns
            if keys is None:
                return
            page = JoinedPage(
                Spans.joined(keys, np.frombuffer(key_sizes, ">i4").astype(np.int64)),
                Spans.joined(values, np.frombuffer(value_sizes, ">i4").astype(np.int64)),
                np.frombuffer(versions, ">i8"),
            )
            yield page
            if len(page) < page_items_max and len(values) <= SCAN_PAGE_BYTES:
                return
            is_small = len(values) // len(page) * page_items_max <= SCAN_PAGE_BYTES // 4
            start = page.last_key + b"\0"

    async def records(self, *, after: Place | None = None) -> AsyncIterator[Sequence[Record]]:
        at = (after.partition.encode(), after.key) if after is not None else (b"", b"")
        while True:
            # Lengths first: a page of values must fit into memory.
            sizes = await self._read(_RECORD_SIZES, (*at, Int8(COPY_PAGE_ROWS)))
            if not sizes:
                return
            fitting = np.cumsum([size for _, _, size in sizes]) <= COPY_PAGE_BYTES
            end = sizes[max(int(fitting.sum()), 1) - 1]
            rows = await self._read(_RECORDS, (*at, end[0], end[1]))
            yield [Record(p.decode(), key, value, tuple(names)) for p, key, names, value in rows]
            at = (end[0], end[1])

    async def load(self, records: Sequence[Record]) -> None:
        await self._write(
            _LOAD,
            (
                [record.partition.encode() for record in records],
                [record.key for record in records],
                # One text for each row: arrays of different lengths make no array.
                [",".join(f"x{name.hex()}" for name in record.names) for record in records],
                [record.value for record in records],
            ),
        )

    async def last_version(self) -> Version:
        [(version,)] = await self._read(_LAST_VERSION, ())
        return Version(version)

    async def raise_version(self, least: Version) -> None:
        await self._write(_RAISE_VERSION, (Int8(least),))

    async def other_users(self) -> list[str]:
        found = await self._read(_OTHER_USERS, ())
        return [f"{name or 'a client'} at {address or 'this machine'}" for name, address in found]

    async def now(self) -> Instant:
        [(now,)] = await self._read(_NOW, ())
        return Instant(now)

    async def close(self) -> None:
        self._closing = True
        while self._calls:
            self._quiet.clear()
            await self._quiet.wait()
        await self._pool.close()

    async def _page(
        self, partition: str, start: bytes, end: bytes | None, items_max: int, *, is_small: bool
    ) -> list[Any]:
        """Return one page as a row of columns; `is_small`: its bytes are not expected to matter."""
        place: list[Any] = [partition.encode(), start, *([] if end is None else [end]), Int8(items_max)]
        if is_small:
            try:
                return await self._read(_SCAN if end is None else _SCAN_TO, place)
            except PageTooLargeError:
                pass  # Rows have become large since.
        bounded = _SCAN_BOUNDED if end is None else _SCAN_TO_BOUNDED
        return await self._read(bounded, [*place, Int8(SCAN_PAGE_BYTES)])

    async def _read(self, statement: LiteralString, parameters: Sequence[Any]) -> list[Any]:
        try:
            return await self._execute(statement, parameters)
        except (psycopg.Error, TimeoutError) as error:
            if not _is_lost(error):
                raise _explain(error, lost=ErrorKind.STORE_UNAVAILABLE) from error
        try:
            return await self._execute(statement, parameters)
        except (psycopg.Error, TimeoutError) as error:
            raise _explain(error, lost=ErrorKind.STORE_UNAVAILABLE) from error

    async def _write(self, statement: LiteralString, parameters: Sequence[Any]) -> list[Any]:
        for attempt in range(1, POSTGRES_ATTEMPTS_MAX):
            try:
                return await self._execute(statement, parameters)
            except (psycopg.Error, TimeoutError) as error:
                if not (isinstance(error, psycopg.Error) and error.sqlstate in _DEADLOCK):
                    raise _explain(error, lost=ErrorKind.OUTCOME_UNKNOWN) from error
            await self._clock.sleep(BACKOFF_SECONDS * attempt)
        try:
            return await self._execute(statement, parameters)
        except (psycopg.Error, TimeoutError) as error:
            raise _explain(error, lost=ErrorKind.OUTCOME_UNKNOWN) from error

    async def _execute(self, statement: LiteralString, parameters: Sequence[Any]) -> list[Any]:
        """Send one statement and return its rows, as psycopg reports it."""
        if self._closing:
            raise UnavailableError(ErrorKind.STORE_UNAVAILABLE, "the store has been closed")
        self._calls += 1
        try:
            connection = await self._take_connection()
            try:
                async with asyncio.timeout(POSTGRES_REPLY_SECONDS):
                    cursor = await connection.execute(statement, parameters, prepare=True, binary=True)
                    return await cursor.fetchall()
            finally:
                await self._pool.putconn(connection)
        finally:
            self._calls -= 1
            if not self._calls:
                self._quiet.set()

    async def _take_connection(self) -> AsyncConnection:
        try:
            return await self._pool.getconn()
        except (PoolTimeout, PoolClosed) as error:
            raise UnavailableError(
                ErrorKind.STORE_UNAVAILABLE,
                "no connection to PostgreSQL could be had, so nothing was sent; "
                "check that the server runs and allows enough connections",
            ) from error


def _application_name() -> str:
    """Return how the server lists the connections of one store; PostgreSQL cuts it off at 63 bytes."""
    return f"lakebed {os.getpid()}.{next(_opened)} {socket.gethostname()}"


async def _prepare_database(url: str) -> None:
    try:
        connection = await AsyncConnection.connect(
            url, autocommit=True, connect_timeout=round(POSTGRES_STATEMENT_SECONDS)
        )
    except psycopg.OperationalError as error:
        raise UnavailableError(
            ErrorKind.STORE_UNAVAILABLE, f"PostgreSQL cannot be reached: {error}"
        ) from error
    except psycopg.Error as error:
        raise InvalidInputError(
            ErrorKind.INVALID_CONFIG, f"this URL of PostgreSQL does not parse: {error}"
        ) from error
    async with connection:
        try:
            await schema.ensure_schema(connection)
        except psycopg.Error as error:
            raise _explain(error, lost=ErrorKind.STORE_UNAVAILABLE) from error


async def _configure(connection: AsyncConnection) -> None:
    await connection.execute(_CONFIGURE)


async def _start_over(pool: "AsyncConnectionPool[AsyncConnection]") -> None:
    """Try to connect again, from the shortest wait on: within one series of tries, the pool doubles it each time."""
    await pool.check()


async def _check_unbroken(connection: AsyncConnection) -> None:
    """Refuse an idle connection on which the server has already said goodbye. Costs no round trip."""
    poll = select.poll()
    poll.register(connection.pgconn.socket, select.POLLIN)
    # An idle server is silent: something to read is a farewell, or the end of the stream.
    if poll.poll(0):
        await connection.close()
        raise psycopg.OperationalError("the server closed this connection while it was idle")


def _is_lost(error: psycopg.Error | TimeoutError) -> bool:
    """Return whether nobody told us what became of the statement."""
    if isinstance(error, TimeoutError) or error.sqlstate is None:
        return True
    return error.sqlstate in _LOST or error.sqlstate.startswith("08")


def _explain(error: psycopg.Error | TimeoutError, *, lost: ErrorKind) -> LakebedError:
    if isinstance(error, TimeoutError):
        return UnavailableError(lost, f"PostgreSQL did not answer within {POSTGRES_REPLY_SECONDS:g} s")
    if _is_lost(error):
        return UnavailableError(lost, f"the connection to PostgreSQL was lost: {error}")
    if error.sqlstate == schema.ROW_CHANGED:
        return ConflictError(ErrorKind.ROW_CHANGED, "a row is no longer at the expected version")
    if error.sqlstate == _DISK_FULL:
        return UnavailableError(
            ErrorKind.DISK_FULL,
            f"PostgreSQL's disk is full and nothing was written ({error}); free some space there and try again",
        )
    if error.sqlstate == _TIMED_OUT:
        return UnavailableError(
            ErrorKind.STORE_UNAVAILABLE,
            f"PostgreSQL gave up after {POSTGRES_STATEMENT_SECONDS:g} s and nothing was written; try again later",
        )
    refused = PageTooLargeError if error.sqlstate in _TOO_LARGE else UnavailableError
    return refused(ErrorKind.STORE_UNAVAILABLE, f"PostgreSQL refused ({error.sqlstate}): {error}")


def _lock_number(partition: str, key: bytes) -> int:
    """Return the advisory lock of a record. Two records may share one: they then wait for each other, no more."""
    digest = blake2b(key, digest_size=8, key=blake2b(partition.encode()).digest(), person=b"lakebed-kv")
    return int.from_bytes(digest.digest(), signed=True)


def _expected_number(expected: Version | Expect) -> Int8:
    match expected:
        case Expect.ANY:
            return Int8(schema.ANY)
        case Expect.ABSENT:
            return Int8(schema.ABSENT)
        case version:
            return Int8(version)


def _expectations(rows: Sequence[Row], keys: Sequence[bytes]) -> list[Int8] | None:
    """Return what the first row of each of `keys` expects; None if nobody expects anything."""
    if all([row.expected is Expect.ANY for row in rows]):  # noqa: C419  a list is twice as fast
        return None
    first: dict[bytes, Version | Expect] = {}
    for row in rows:
        first.setdefault(row.key, row.expected)
    return [_expected_number(first[key]) for key in keys]


def _fence_parameters(fence: Fence | None) -> tuple[Any, ...]:
    """Return partition, key, version, names and lock of `fence`."""
    if fence is None:
        return (None, None, None, None, None)
    place = (fence.partition.encode(), fence.key)
    lock = Int8(_lock_number(fence.partition, fence.key))
    match fence:
        case NamesFence(names=names):
            return (*place, None, list(names), lock)
        case VersionFence(version=version):
            return (*place, Int8(version), None, lock)


def _fence_lost(fence: Fence | None) -> ConflictError:
    assert fence is not None
    return ConflictError(ErrorKind.FENCE_LOST, f"{fence.key!r} has changed since it was read")
