"""A URL names a store."""

import subprocess
import sys
from pathlib import Path

import pytest

from lakebed.errors import ErrorKind, InvalidInputError
from lakebed.kv.drivers.lmdb import LmdbKV
from lakebed.kv.drivers.memory import MemoryKV
from lakebed.kv.open import open_kv
from lakebed.kv.port import Row
from lakebed.kv.wrappers.shared_reads import SharedReads
from lakebed.testing.kv_suite import keys_of
from lakebed.testing.postgres import PostgresServer


async def test_memory_is_a_store_in_memory() -> None:
    assert isinstance(await open_kv("memory://"), MemoryKV)


async def test_lmdb_is_a_folder(tmp_path: Path) -> None:
    store = await open_kv(f"lmdb://{tmp_path}/a%20b")

    assert isinstance(store, LmdbKV)
    assert (tmp_path / "a b" / "data.mdb").exists()
    await store.close()


@pytest.mark.server
@pytest.mark.xdist_group("postgres")
@pytest.mark.parametrize("scheme", ["postgres", "postgresql"])
async def test_postgres_is_a_database_whose_reads_are_shared(postgres: PostgresServer, scheme: str) -> None:
    store = await open_kv(postgres.url().replace("postgresql:", f"{scheme}:"))

    await store.set_rows(f"open-{scheme}", [Row(b"k", b"v")])
    assert isinstance(store, SharedReads)
    assert await keys_of(store, f"open-{scheme}") == [b"k"]
    await store.close()


@pytest.mark.parametrize("url", ["redis://host", "", "/just/a/path"])
async def test_an_unknown_scheme_is_refused_and_the_known_ones_named(url: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        await open_kv(url)

    assert caught.value.kind is ErrorKind.INVALID_CONFIG
    for scheme in ("lmdb://", "memory://", "postgresql://"):
        assert scheme in str(caught.value)


@pytest.mark.parametrize("url", ["lmdb://", "lmdb:///", "lmdb://relative/folder"])
async def test_lmdb_without_an_absolute_folder_is_refused(url: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        await open_kv(url)

    assert caught.value.kind is ErrorKind.INVALID_CONFIG


def test_nobody_needs_psycopg_who_does_not_ask_for_postgres(tmp_path: Path) -> None:
    code = f"""
import asyncio, sys
sys.modules["psycopg"] = None
from lakebed.kv.open import open_kv
asyncio.run(open_kv("lmdb://{tmp_path}/kv"))
try:
    asyncio.run(open_kv("postgres://host/db"))
except ValueError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert "lakebed[postgres]" in done.stdout
