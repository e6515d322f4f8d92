"""Every wrapper is a store: it keeps the contract of what it wraps."""

import pytest
from prometheus_client import CollectorRegistry

from lakebed.env.clock import SystemClock
from lakebed.env.ids import SeededIds
from lakebed.objects.drivers.memory import MemoryBucket, MemoryObjects
from lakebed.objects.port import ObjectStore
from lakebed.objects.wrappers.faults import (
    READS,
    Call,
    Fault,
    FaultyObjects,
    LostRequest,
    Operation,
    PartialRead,
    Refused,
    chances,
    no_faults,
)
from lakebed.objects.wrappers.metrics import MeteredObjects, ObjectMeters
from lakebed.objects.wrappers.retry import RetryingObjects
from lakebed.objects.wrappers.sampled import SampledObjects
from lakebed.testing.object_suite import ObjectSuite


class NoWaitClock(SystemClock):
    async def sleep(self, seconds: float) -> None:
        return None


class WrapperSuite(ObjectSuite):
    def wrap(self, inner: ObjectStore) -> ObjectStore:
        raise NotImplementedError

    @pytest.fixture
    async def store(self) -> ObjectStore:
        self.bucket = MemoryBucket()
        return self.wrap(MemoryObjects(bucket=self.bucket))

    async def reopen(self, store: ObjectStore) -> ObjectStore:
        return self.wrap(MemoryObjects(bucket=self.bucket))


class TestMeteredObjects(WrapperSuite):
    def wrap(self, inner: ObjectStore) -> ObjectStore:
        return MeteredObjects(inner, meters=ObjectMeters(CollectorRegistry()), clock=SystemClock())


class TestSampledObjects(WrapperSuite):
    def wrap(self, inner: ObjectStore) -> ObjectStore:
        return SampledObjects(inner, meters=ObjectMeters(CollectorRegistry()), clock=SystemClock())


class TestFaultyObjectsWithoutFaults(WrapperSuite):
    def wrap(self, inner: ObjectStore) -> ObjectStore:
        return FaultyObjects(inner, plan=no_faults, clock=SystemClock())


class TestRetryingObjects(WrapperSuite):
    def wrap(self, inner: ObjectStore) -> ObjectStore:
        return RetryingObjects(inner, clock=NoWaitClock(), ids=SeededIds(1))


class TestRetryingObjectsHideOutages(WrapperSuite):
    """Reads break off, requests do not get through, and nobody notices."""

    def wrap(self, inner: ObjectStore) -> ObjectStore:
        faulty = FaultyObjects(inner, plan=self.outages, clock=NoWaitClock())
        return RetryingObjects(faulty, clock=NoWaitClock(), ids=SeededIds(1), attempts_max=40)

    def outages(self, call: Call) -> Fault | None:
        if call.operation is Operation.PUT_STREAM:
            return None  # A stream cannot be read twice.
        return self.of_reads(call) if call.operation in READS else self.of_writes(call)

    of_reads = staticmethod(
        chances(SeededIds(2), [(0.2, LostRequest()), (0.2, PartialRead(3)), (0.1, Refused())])
    )
    of_writes = staticmethod(chances(SeededIds(3), [(0.3, Refused())]))
