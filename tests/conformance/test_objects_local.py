"""A folder holds the contract, synced or not."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from lakebed.objects.drivers.local import LocalObjects
from lakebed.objects.port import ObjectStore
from lakebed.testing.object_suite import ObjectSuite


class TestLocalObjects(ObjectSuite):
    fsync = True
    opened: list[LocalObjects]

    @pytest.fixture
    async def store(self, tmp_path: Path) -> AsyncIterator[ObjectStore]:
        self.root = tmp_path / "made" / "by the store"
        self.opened = [LocalObjects(self.root, fsync=self.fsync)]
        yield self.opened[0]
        for store in self.opened:
            await store.close()

    async def reopen(self, store: ObjectStore) -> ObjectStore:
        self.opened.append(LocalObjects(self.root, fsync=self.fsync))
        return self.opened[-1]


class TestUnsyncedLocalObjects(TestLocalObjects):
    fsync = False
