"""Trees on threads and on a folder, as a server runs them."""

import asyncio

import pyarrow as pa
import pytest
from tests.unit.committed.world import RULE, blocks_of, key, put
from tests.unit.format.test_cut import numbered

from lakebed.committed.cache import RangeCache
from lakebed.committed.trees import Trees
from lakebed.env.work import ThreadWorkers
from lakebed.errors import ErrorKind, UnavailableError
from lakebed.format.merge import as_tombstones, newest_wins
from lakebed.limits import CONFLICTS_LISTED_MAX
from lakebed.model.diffs import ChangeCounts, MergeStrategy
from lakebed.model.ids import EMPTY_TREE, Nonce
from lakebed.objects.drivers.memory import MemoryObjects


@pytest.fixture
def workers():
    threads = ThreadWorkers(3)
    yield threads
    threads.close()


@pytest.fixture
def trees(tmp_path, workers):
    cache = RangeCache(tmp_path, workers=workers, mapped_bytes_max=100_000, held_bytes_max=100_000)
    return Trees(MemoryObjects(), cache, workers, rule=RULE)


async def keys(trees, tree, **bounds):
    return [
        k for block in [b async for b in trees.scan(tree, **bounds)] for k in block.column("key").to_pylist()
    ]


async def test_many_operations_at_once_do_not_disturb_each_other(trees):
    base = (await trees.apply(EMPTY_TREE, put(*range(5_000)), nonce=Nonce("0" * 20))).id

    async def one(number):
        change = newest_wins([put(number), as_tombstones(pa.array([key(number + 1)]))])
        applied = await trees.apply(base, change, nonce=Nonce(f"{number:020}"))
        assert applied.counts == ChangeCounts(removed=1)
        found = [b async for b in trees.diff(base, applied.id)]
        assert [b.column("key").to_pylist() for b in found] == [[key(number + 1)]]
        assert await trees.lookup(applied.id, key(number + 1)) is None
        assert len(await keys(trees, applied.id)) == 4_999

    await asyncio.gather(*(one(number) for number in range(0, 4_000, 333)))


async def test_many_small_blocks_and_one_large_make_the_same_tree(trees):
    block = numbered(range(3_000))
    one = await trees.write(blocks_of(block), nonce=Nonce("1" * 20))
    many = await trees.write(
        blocks_of(*(block.slice(i, 10) for i in range(0, 3_000, 10))), nonce=Nonce("2" * 20)
    )

    assert [r.hash for r in await trees.ranges(one.id)] == [r.hash for r in await trees.ranges(many.id)]


async def test_conflicts_are_listed_up_to_a_limit_and_counted_beyond(trees):
    rows = range(CONFLICTS_LISTED_MAX * 2)
    base = (await trees.apply(EMPTY_TREE, put(*rows), nonce=Nonce("1" * 20))).id
    source = (await trees.apply(base, put(*rows, metadata="theirs"), nonce=Nonce("2" * 20))).id
    dest = (await trees.apply(base, put(*rows, metadata="ours"), nonce=Nonce("3" * 20))).id

    merged = await trees.merge(base, source, dest, nonce=Nonce("4" * 20))
    assert merged.conflicts == tuple(key(n) for n in range(CONFLICTS_LISTED_MAX))
    assert merged.conflicts_total == len(rows)
    assert merged.id == dest

    resolved = await trees.merge(
        base, source, dest, strategy=MergeStrategy.SOURCE_WINS, nonce=Nonce("5" * 20)
    )
    assert resolved.id == source
    assert resolved.counts == ChangeCounts(changed=len(rows))


async def test_an_outage_while_writing_is_raised_and_a_retry_succeeds(tmp_path, workers):
    class Failing(MemoryObjects):
        left = 3

        async def put(self, key, data, **options):
            self.left -= 1
            if self.left == 0:
                raise UnavailableError(ErrorKind.STORE_UNAVAILABLE, "down")
            return await super().put(key, data, **options)

    trees = Trees(Failing(), RangeCache(tmp_path, workers=workers), workers, rule=RULE)
    with pytest.raises(UnavailableError):
        await trees.apply(EMPTY_TREE, put(*range(2_000)), nonce=Nonce("1" * 20))

    applied = await trees.apply(EMPTY_TREE, put(*range(2_000)), nonce=Nonce("1" * 20))
    assert await keys(trees, applied.id) == [key(n) for n in range(2_000)]


async def test_a_scan_is_not_disturbed_by_readers_of_other_ranges(trees):
    tree = (await trees.apply(EMPTY_TREE, put(*range(3_000)), nonce=Nonce("1" * 20))).id
    seen = []
    async for block in trees.scan(tree, after=key(10), prefix="k0000"):
        for number in range(0, 3_000, 100):
            await trees.lookup(tree, key(number))
        seen += block.column("key").to_pylist()

    assert seen == [key(n) for n in range(11, 3_000)]
