"""The LMDB driver keeps the contract, also while its map grows."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from lakebed.kv.drivers.lmdb import LmdbKV
from lakebed.kv.port import KVStore
from lakebed.limits import MIB
from lakebed.testing.kv_suite import KVSuite


class TestLmdbKV(KVSuite):
    @pytest.fixture
    async def store(self, tmp_path: Path) -> AsyncIterator[KVStore]:
        store = LmdbKV(tmp_path / "kv")
        yield store
        await store.close()


class TestLmdbKVThatGrows(KVSuite):
    @pytest.fixture
    async def store(self, tmp_path: Path) -> AsyncIterator[KVStore]:
        store = LmdbKV(tmp_path / "kv", map_bytes=MIB // 16)
        yield store
        await store.close()
