"""Every wrapper is a store: it keeps the contract of what it wraps."""

import pytest
from prometheus_client import CollectorRegistry

from lakebed.env.clock import SystemClock
from lakebed.kv.drivers.memory import MemoryKV
from lakebed.kv.port import KVStore
from lakebed.kv.wrappers.faults import FaultyKV, no_faults
from lakebed.kv.wrappers.metrics import MeteredKV
from lakebed.kv.wrappers.sampled import SampledKV
from lakebed.kv.wrappers.shared_reads import SharedReads
from lakebed.testing.kv_suite import KVSuite


class TestSharedReads(KVSuite):
    @pytest.fixture
    async def store(self) -> KVStore:
        return SharedReads(MemoryKV())


class TestSampledKV(KVSuite):
    @pytest.fixture
    def store(self) -> KVStore:
        return SampledKV(MemoryKV(), registry=CollectorRegistry(), clock=SystemClock())


class TestMeteredKV(KVSuite):
    @pytest.fixture
    async def store(self) -> KVStore:
        return MeteredKV(MemoryKV(), registry=CollectorRegistry(), clock=SystemClock())


class TestFaultyKVWithoutFaults(KVSuite):
    @pytest.fixture
    async def store(self) -> KVStore:
        return FaultyKV(MemoryKV(), plan=no_faults, clock=SystemClock())


class TestAllWrappersWithoutFences(KVSuite):
    @pytest.fixture
    async def store(self) -> KVStore:
        inner = FaultyKV(MemoryKV(fences=False), plan=no_faults, clock=SystemClock())
        return MeteredKV(SharedReads(inner), registry=CollectorRegistry(), clock=SystemClock())
