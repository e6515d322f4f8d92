"""The PostgreSQL driver keeps the contract, on a real server."""

from collections.abc import AsyncIterator

import psycopg
import pytest

from lakebed.env.clock import SystemClock
from lakebed.kv.drivers.postgres import PostgresKV
from lakebed.kv.port import KVStore
from lakebed.kv.wrappers.shared_reads import SharedReads
from lakebed.testing.kv_suite import KVSuite
from lakebed.testing.postgres import PostgresServer

pytestmark = [pytest.mark.server, pytest.mark.xdist_group("postgres")]


class TestPostgresKV(KVSuite):
    @pytest.fixture
    async def store(self, postgres: PostgresServer) -> AsyncIterator[KVStore]:
        store = await PostgresKV.connect(postgres.url(), clock=SystemClock())
        empty(postgres)
        yield store
        await store.close()


class TestPostgresKVWithSharedReads(KVSuite):
    @pytest.fixture
    async def store(self, postgres: PostgresServer) -> AsyncIterator[KVStore]:
        store = SharedReads(await PostgresKV.connect(postgres.url(), clock=SystemClock()))
        empty(postgres)
        yield store
        await store.close()


def empty(postgres: PostgresServer) -> None:
    with psycopg.connect(postgres.url(), autocommit=True) as connection:
        connection.execute("TRUNCATE lakebed_kv")
