"""A leased store keeps the contract, even if its place is closed after every call."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from lakebed.env.clock import SystemClock
from lakebed.objects.drivers.local import LocalObjects
from lakebed.objects.open_stores import OpenStores
from lakebed.objects.port import ObjectStore
from lakebed.testing.object_suite import ObjectSuite


class TestLeasedObjects(ObjectSuite):
    @pytest.fixture
    async def store(self, tmp_path: Path) -> AsyncIterator[ObjectStore]:
        root = tmp_path / "root"
        self.stores = OpenStores(
            lambda _place: LocalObjects(root, fsync=False), clock=SystemClock(), open_max=0
        )
        yield await self.stores.at("the one")
        await self.stores.close()
        assert self.stores.count == 0

    async def reopen(self, store: ObjectStore) -> ObjectStore:
        return await self.stores.at("the one")
