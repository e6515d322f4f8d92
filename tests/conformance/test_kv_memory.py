"""The memory driver keeps the contract, with fences and without."""

import pytest

from lakebed.kv.drivers.memory import MemoryKV
from lakebed.kv.port import KVStore
from lakebed.testing.kv_suite import KVSuite


class TestMemoryKV(KVSuite):
    @pytest.fixture
    async def store(self) -> KVStore:
        return MemoryKV()


class TestMemoryKVWithoutFences(KVSuite):
    @pytest.fixture
    async def store(self) -> KVStore:
        return MemoryKV(fences=False)
