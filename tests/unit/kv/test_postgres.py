"""PostgreSQL restarted, cut off, contended, or of another version: each has one clear outcome."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from itertools import count
from typing import Any

import psycopg
import pytest
from psycopg_pool.base import AttemptWithBackoff

from lakebed.env.clock import SystemClock
from lakebed.errors import ConflictError, CorruptError, ErrorKind, InvalidInputError, UnavailableError
from lakebed.kv.drivers import postgres
from lakebed.kv.drivers.postgres import PostgresKV
from lakebed.kv.open import open_kv
from lakebed.kv.port import Expect, NamesFence, Row, VersionFence
from lakebed.limits import POSTGRES_RECONNECT_SECONDS
from lakebed.testing.kv_suite import keys_of, rows_of
from lakebed.testing.postgres import PostgresServer, running_postgres

pytestmark = [pytest.mark.server, pytest.mark.xdist_group("postgres")]

_numbers = count()


@pytest.fixture
def database(postgres: PostgresServer) -> str:
    """The URL of an empty database."""
    return postgres.create_database(f"kv_unit_{next(_numbers)}")


@pytest.fixture
async def store(database: str) -> AsyncIterator[PostgresKV]:
    store = await PostgresKV.connect(database, clock=SystemClock())
    yield store
    await store.close()


@pytest.fixture
def own_server() -> Iterator[PostgresServer]:
    """A server that the test may stop."""
    with running_postgres() as server:
        yield server


class Operator:
    """Somebody with a connection of their own who looks at the server and interferes."""

    def __init__(self, connection: "psycopg.AsyncConnection[Any]") -> None:
        self._connection = connection

    async def run(self, statement: str) -> list[tuple[Any, ...]]:
        cursor = await self._connection.execute(statement)  # type: ignore[call-overload]  # plain text
        return await cursor.fetchall() if cursor.description else []

    async def waiting(self, call: "asyncio.Task[Any]") -> int:
        """Return the process that works on `call` once it waits for a lock."""
        while not call.done():
            if found := await self._waiting():
                return int(found[0][0])
        raise AssertionError("the call did not wait")

    async def count_waiting(self) -> int:
        return len(await self._waiting())

    async def _waiting(self) -> list[tuple[Any, ...]]:
        # Inside a transaction the server shows what it has shown before.
        await self.run("SELECT pg_stat_clear_snapshot()")
        return await self.run(
            "SELECT pid FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
        )


@pytest.fixture
async def operator(database: str) -> AsyncIterator[Operator]:
    async with await psycopg.AsyncConnection.connect(database, autocommit=True) as connection:
        yield Operator(connection)


async def test_a_server_that_restarts_loses_no_acknowledged_write(own_server: PostgresServer) -> None:
    store = await PostgresKV.connect(own_server.url(), clock=SystemClock())
    acknowledged: set[bytes] = set()
    failures: list[ErrorKind] = []
    restarted = asyncio.Event()
    busy = asyncio.Event()

    async def write(writer: int) -> None:
        number = 0
        after = 0
        while after < 3:
            key = b"%d-%d" % (writer, number)
            number += 1
            try:
                await store.set_rows("p", [Row(key, b"v")])
            except UnavailableError as error:
                failures.append(error.kind)
                continue
            acknowledged.add(key)
            after += restarted.is_set()
            if len(acknowledged) > 50:
                busy.set()

    async def restart() -> None:
        await busy.wait()
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(None, own_server.stop)
        await loop.run_in_executor(None, own_server.start)
        restarted.set()

    await asyncio.gather(restart(), *[write(n) for n in range(4)])

    assert acknowledged <= set(await keys_of(store, "p"))
    assert set(failures) <= {ErrorKind.OUTCOME_UNKNOWN, ErrorKind.STORE_UNAVAILABLE}
    await store.close()


async def test_after_a_restart_idle_connections_cost_no_unknown_outcome(own_server: PostgresServer) -> None:
    store = await PostgresKV.connect(own_server.url(), clock=SystemClock())
    await asyncio.gather(*[store.set_rows("p", [Row(b"%d" % n, b"v")]) for n in range(20)])
    own_server.stop()
    own_server.start()

    await asyncio.gather(*[store.set_rows("q", [Row(b"%d" % n, b"v")]) for n in range(20)])

    assert len(await keys_of(store, "q")) == 20
    await store.close()


async def test_while_the_server_is_away_nothing_is_sent_and_the_caller_knows(
    own_server: PostgresServer,
) -> None:
    store = await PostgresKV.connect(own_server.url(), clock=SystemClock(), connection_seconds=0.2)
    own_server.stop()

    for call in (store.swap("p", b"k", b"v", expected=Expect.ABSENT), store.get("p", b"k")):
        with pytest.raises(UnavailableError) as caught:
            await call
        assert caught.value.kind is ErrorKind.STORE_UNAVAILABLE
    await store.close()


async def test_the_pool_never_waits_long_between_two_tries_to_connect(store: PostgresKV) -> None:
    pool = store._pool
    now, waits = 0.0, []
    for _ in range(1000):
        attempt = AttemptWithBackoff(timeout=pool.reconnect_timeout)
        while not attempt.time_to_give_up(now):
            attempt.update_delay(now)
            waits.append(attempt.delay)
            now += attempt.delay
    assert now > 1000, "the outage was a long one"
    assert max(waits) <= POSTGRES_RECONNECT_SECONDS


async def test_after_an_outage_that_outlasts_many_tries_the_store_comes_back(
    own_server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    started_over = 0
    start_over = postgres._start_over

    async def counted(pool: Any) -> None:
        nonlocal started_over
        started_over += 1
        await start_over(pool)

    monkeypatch.setattr(postgres, "_start_over", counted)
    monkeypatch.setattr(postgres, "POSTGRES_RECONNECT_SECONDS", 0.05)
    store = await PostgresKV.connect(own_server.url(), clock=SystemClock(), connection_seconds=0.2)
    await store.swap("p", b"k", b"v", expected=Expect.ABSENT)
    own_server.stop()
    while started_over < 5:
        with pytest.raises(UnavailableError):
            await store.get("p", b"k")
    seen = started_over
    while started_over < seen + 3:
        await asyncio.sleep(0.05)  # No request asks for a connection, and the pool tries again.
    own_server.start()

    found = None
    while found is None:
        with suppress(UnavailableError):
            found = await store.get("p", b"k")
    assert found.value == b"v"
    await store.close()


async def test_a_write_cut_off_on_its_way_has_an_unknown_outcome(
    store: PostgresKV, operator: Operator
) -> None:
    await store.set_rows("p", [Row(b"k", b"old")])
    await operator.run("BEGIN; LOCK TABLE lakebed_kv")
    write = asyncio.create_task(store.set_rows("p", [Row(b"k", b"new")]))

    await operator.run(f"SELECT pg_terminate_backend({await operator.waiting(write)})")
    with pytest.raises(UnavailableError) as caught:
        await write
    await operator.run("COMMIT")

    assert caught.value.kind is ErrorKind.OUTCOME_UNKNOWN
    assert await rows_of(store, "p") == [(b"k", b"old")]


async def test_a_read_cut_off_on_its_way_is_sent_again(store: PostgresKV, operator: Operator) -> None:
    await store.set_rows("p", [Row(b"k", b"v")])
    await operator.run("BEGIN; LOCK TABLE lakebed_kv")
    read = asyncio.create_task(store.get("p", b"k"))

    await operator.run(f"SELECT pg_terminate_backend({await operator.waiting(read)})")
    await operator.run("COMMIT")

    found = await read
    assert found is not None
    assert found.value == b"v"


async def test_a_statement_that_the_server_gave_up_was_not_written(
    store: PostgresKV, operator: Operator
) -> None:
    await operator.run("BEGIN; LOCK TABLE lakebed_kv")
    write = asyncio.create_task(store.set_rows("p", [Row(b"k", b"v")]))

    await operator.run(f"SELECT pg_cancel_backend({await operator.waiting(write)})")
    with pytest.raises(UnavailableError) as caught:
        await write
    await operator.run("COMMIT")

    assert caught.value.kind is ErrorKind.STORE_UNAVAILABLE
    assert await rows_of(store, "p") == []


@pytest.mark.parametrize(("deadlocks", "written"), [(1, True), (3, True), (100, False)])
async def test_what_the_server_rolled_back_is_repeated_a_few_times(
    store: PostgresKV, operator: Operator, deadlocks: int, written: bool
) -> None:
    await operator.run(f"""
        CREATE SEQUENCE attempts;
        CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
            IF nextval('attempts') <= {deadlocks} THEN RAISE EXCEPTION USING ERRCODE = '40P01'; END IF;
            RETURN new;
        END $$;
        CREATE TRIGGER fail BEFORE INSERT ON lakebed_kv FOR EACH ROW EXECUTE FUNCTION fail();
    """)

    outcome = await asyncio.gather(store.set_rows("p", [Row(b"k", b"v")]), return_exceptions=True)

    assert outcome == [None] if written else isinstance(outcome[0], UnavailableError)
    assert len(await rows_of(store, "p")) == written


async def test_rows_under_a_fence_wait_for_a_swap_that_is_under_way(
    store: PostgresKV, operator: Operator
) -> None:
    """The record is read after the lock was granted: a snapshot from before would miss the swap."""
    await store.swap("r", b"branch", b"v", expected=Expect.ANY, names=(b"old",))
    await operator.run("BEGIN; UPDATE lakebed_kv SET value = value WHERE key = 'branch'")
    swap = asyncio.create_task(store.swap("r", b"branch", b"v", expected=Expect.ANY, names=(b"new",)))
    await operator.waiting(swap)
    fence = NamesFence(partition="r", key=b"branch", names=(b"old",))
    rows = asyncio.create_task(store.set_rows("p", [Row(b"k", b"late")], fence=fence))
    while not rows.done() and await operator.count_waiting() < 2:
        pass

    await operator.run("COMMIT")
    await swap
    with pytest.raises(ConflictError) as caught:
        await rows

    assert caught.value.kind is ErrorKind.FENCE_LOST
    assert await rows_of(store, "p") == []


async def test_a_version_fence_also_stops_rows_that_replace_its_record(
    store: PostgresKV, operator: Operator
) -> None:
    version = await store.swap("r", b"commit", b"v", expected=Expect.ABSENT)
    await operator.run(
        "BEGIN; LOCK TABLE lakebed_kv IN ROW EXCLUSIVE MODE; UPDATE lakebed_kv SET version = 0"
    )
    fence = VersionFence(partition="r", key=b"commit", version=version)
    swap = asyncio.create_task(store.swap("r", b"branch", b"v", expected=Expect.ABSENT, fence=fence))
    await operator.waiting(swap)

    await operator.run("COMMIT")
    with pytest.raises(ConflictError) as caught:
        await swap

    assert caught.value.kind is ErrorKind.FENCE_LOST


async def test_processes_that_start_together_make_one_schema(database: str) -> None:
    stores = await asyncio.gather(*[PostgresKV.connect(database, clock=SystemClock()) for _ in range(6)])

    await stores[0].set_rows("p", [Row(b"k", b"v")])
    assert await keys_of(stores[5], "p") == [b"k"]
    for store in stores:
        await store.close()


async def test_a_database_of_a_newer_version_is_refused(
    store: PostgresKV, operator: Operator, database: str
) -> None:
    await operator.run("UPDATE lakebed_kv_schema SET version = version + 1")

    with pytest.raises(CorruptError) as caught:
        await PostgresKV.connect(database, clock=SystemClock())

    assert caught.value.kind is ErrorKind.NEWER_VERSION
    assert "upgrade" in str(caught.value)


async def test_a_server_that_is_not_there_is_a_clear_error() -> None:
    with pytest.raises(UnavailableError) as caught:
        await open_kv("postgresql://someone:secret@127.0.0.1:1/lakebed")

    assert caught.value.kind is ErrorKind.STORE_UNAVAILABLE
    assert "secret" not in str(caught.value)


async def test_a_url_that_does_not_parse_is_a_clear_error() -> None:
    with pytest.raises(InvalidInputError) as caught:
        await open_kv("postgresql://host/db?no_such_setting=1")

    assert caught.value.kind is ErrorKind.INVALID_CONFIG


async def test_time_is_the_servers(store: PostgresKV, operator: Operator) -> None:
    [(before,)] = await operator.run("SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint")
    now = await store.now()
    [(after,)] = await operator.run("SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint")

    assert before <= now <= after
    assert store.capabilities.engine_time
