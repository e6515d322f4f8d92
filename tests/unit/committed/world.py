"""A namespace whose traffic can be watched and spoiled, and trees over it."""

from collections import Counter

from tests.unit.format.test_cut import numbered

from lakebed.committed.cache import RangeCache
from lakebed.committed.trees import Trees
from lakebed.env.work import InlineWorkers
from lakebed.format.cut import CutRule
from lakebed.format.merge import as_changes
from lakebed.model.ids import Nonce
from lakebed.objects.drivers.memory import MemoryObjects
from lakebed.objects.port import PutMode

RULE = CutRule(entries_expected=100)


class WatchedObjects(MemoryObjects):
    """Counts gets, lists puts in order, and can spoil what it answers."""

    def __init__(self):
        super().__init__()
        self.gets = Counter()
        self.puts = []
        self.spoil = lambda data: data

    async def get(self, key, *, byte_range=None):
        self.gets[key] += 1
        return self.spoil(await super().get(key, byte_range=byte_range))

    async def put(self, key, data, *, when=PutMode.CREATE):
        etag = await super().put(key, data, when=when)
        self.puts.append(key)
        return etag


class World:
    """One namespace; every `trees()` is another process that has nothing cached, unless it gets the folder."""

    def __init__(self, folder=None):
        self.store = WatchedObjects()
        self.folder = folder
        self.nonces = 0

    def trees(self, *, scope="", **limits):
        workers = InlineWorkers()
        return Trees(
            self.store, RangeCache(self.folder, workers=workers, **limits), workers, scope=scope, rule=RULE
        )

    @property
    def nonce(self):
        self.nonces += 1
        return Nonce(f"{self.nonces:020}")

    async def plant(self, numbers, trees=None):
        return (await (trees or self.trees()).write(blocks_of(numbered(numbers)), nonce=self.nonce)).id


async def blocks_of(*blocks):
    for block in blocks:
        yield block


def put(*numbers, metadata='{"k":"new"}'):
    """Changes that set these numbered entries."""
    return as_changes(numbered(sorted(numbers), metadata=metadata))


def key(number):
    return f"k{number:08}"
