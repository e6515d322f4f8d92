"""The memory driver holds the contract."""

import pytest

from lakebed.objects.drivers.memory import MemoryBucket, MemoryObjects
from lakebed.objects.port import ObjectStore
from lakebed.testing.object_suite import ObjectSuite


class TestMemoryObjects(ObjectSuite):
    bucket: MemoryBucket

    @pytest.fixture
    async def store(self) -> ObjectStore:
        self.bucket = MemoryBucket()
        return MemoryObjects(bucket=self.bucket)

    async def reopen(self, store: ObjectStore) -> ObjectStore:
        return MemoryObjects(bucket=self.bucket)
