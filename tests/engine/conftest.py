"""Sites with nothing on them yet, one for each pair of stores."""

from collections.abc import AsyncIterator
from pathlib import Path

import psycopg
import pytest

from lakebed.env.clock import SystemClock
from lakebed.env.ids import SystemIds
from lakebed.kv.drivers.lmdb import LmdbKV
from lakebed.kv.drivers.memory import MemoryKV
from lakebed.kv.drivers.postgres import PostgresKV
from lakebed.objects.settings import StoreSettings
from lakebed.staging.appending import SegmentUse
from lakebed.testing.lake import Lake
from lakebed.testing.postgres import PostgresServer
from lakebed.testing.s3_server import make_bucket
from lakebed.testing.site import Site, local_settings

PAIRS = [
    pytest.param("memory", id="memory-memory"),
    pytest.param("segments", id="memory-segments"),
    pytest.param("lmdb", id="lmdb-local"),
    pytest.param(
        "postgres", id="postgres-local", marks=[pytest.mark.server, pytest.mark.xdist_group("postgres")]
    ),
    pytest.param("s3", id="lmdb-s3", marks=[pytest.mark.server, pytest.mark.xdist_group("s3")]),
]


@pytest.fixture(scope="session")
def s3(weed: StoreSettings) -> StoreSettings:
    """A running S3 server with a bucket `lakes`."""
    make_bucket(weed, "lakes")
    return weed


@pytest.fixture(scope="session")
def database(postgres: PostgresServer) -> str:
    """The URL of a database of our own."""
    return postgres.create_database("engine")


@pytest.fixture
async def postgres_url(database: str) -> str:
    """The URL of a store with nothing in it."""
    await (await PostgresKV.connect(database, clock=SystemClock())).close()
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("TRUNCATE lakebed_kv")
    return database


@pytest.fixture
async def lmdb(tmp_path: Path) -> AsyncIterator[LmdbKV]:
    kv = LmdbKV(tmp_path / "kv")
    yield kv
    await kv.close()


@pytest.fixture(params=PAIRS)
def site(request: pytest.FixtureRequest, tmp_path: Path) -> Site:
    match request.param:
        case "memory":
            return Site(tmp_path, "mem://", StoreSettings(), kv=MemoryKV())
        case "segments":
            return Site(
                tmp_path, "mem://", StoreSettings(), kv=MemoryKV(), staging_segments=SegmentUse.ALWAYS
            )
        case "lmdb":
            return Site(tmp_path, "local://", local_settings(tmp_path), kv=request.getfixturevalue("lmdb"))
        case "postgres":
            url = request.getfixturevalue("postgres_url")
            return Site(tmp_path, "local://", local_settings(tmp_path), postgres_url=url)
        case _:
            # A place of its own for each test: the server stays, and a namespace must be empty.
            place = f"s3://lakes/{SystemIds().token()}/"
            return Site(tmp_path, place, request.getfixturevalue("s3"), kv=request.getfixturevalue("lmdb"))


@pytest.fixture
async def lake(site: Site) -> AsyncIterator[Lake]:
    async with site.lake() as lake:
        yield lake
