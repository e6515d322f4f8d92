"""What the trees leave in the namespace, and what they say when it is damaged."""

import re
from dataclasses import replace

import pytest
from tests.unit.committed.world import World, blocks_of, key, put
from tests.unit.format.test_cut import numbered

from lakebed.committed.names import metarange_key, range_key
from lakebed.errors import CorruptError, ErrorKind
from lakebed.format import parquet
from lakebed.format.metaranges import METARANGE_FILE, metarange_block, metarange_hash
from lakebed.format.parquet import FileKind
from lakebed.format.ranges import RANGE_FILE
from lakebed.format.tree_names import tree_file_name
from lakebed.model.diffs import MergeStrategy
from lakebed.model.ids import EMPTY_TREE, MetarangeId, Nonce, RangeId
from lakebed.objects.port import PutMode


@pytest.fixture
def world():
    return World()


async def test_names_are_hash_and_nonce_in_their_folders(world):
    trees = world.trees()
    written = await trees.write(blocks_of(numbered(range(500))), nonce=Nonce("n" * 20))
    ranges = await trees.ranges(written.id)

    assert len(ranges) > 3
    assert written.count == 500
    assert set(world.store.puts) == {metarange_key(written.id), *(range_key(r.id) for r in ranges)}
    assert all(r.id == tree_file_name(r.hash, "n" * 20) for r in ranges)
    assert all(re.fullmatch("[0-9a-f]{64}", name) for name in [written.id, *(r.id for r in ranges)])
    assert range_key(ranges[0].id).startswith("_lakebed/ranges/")
    assert metarange_key(written.id).startswith("_lakebed/metaranges/")


async def test_the_metarange_is_put_last(world):
    tree = await world.plant(range(1_000))

    assert world.store.puts[-1] == metarange_key(tree)
    assert len(world.store.puts) > 5


async def test_an_operation_that_is_retried_finds_its_own_files(world):
    first = await world.trees().write(blocks_of(numbered(range(500))), nonce=Nonce("n" * 20))
    stored = list(world.store.puts)
    again = await world.trees().write(blocks_of(numbered(range(500))), nonce=Nonce("n" * 20))

    assert again == first
    assert world.store.puts == stored


async def test_another_operation_never_writes_a_name_again(world):
    first = await world.plant(range(500))
    second = await world.plant(range(500))

    assert first != second
    assert len(set(world.store.puts)) == len(world.store.puts)


async def test_the_empty_tree_has_no_file(world):
    trees = world.trees()
    assert (await trees.write(blocks_of(), nonce=world.nonce)).id == EMPTY_TREE
    applied = await trees.apply(EMPTY_TREE, put(1), nonce=world.nonce)
    stored = list(world.store.puts)
    emptied = await trees.replace_prefixes(applied.id, [""], EMPTY_TREE, nonce=world.nonce)

    assert emptied.id == EMPTY_TREE
    assert emptied.counts.removed == 1
    assert world.store.puts == stored
    assert await trees.ranges(EMPTY_TREE) == ()
    assert await trees.lookup(EMPTY_TREE, "x") is None


async def test_a_missing_range_is_named(world):
    tree = await world.plant(range(500))
    missing = range_key((await world.trees().ranges(tree))[1].id)
    await world.store.delete([missing])

    with pytest.raises(CorruptError, match=missing) as caught:
        await scanned(world.trees(), tree)
    assert caught.value.kind is ErrorKind.FILE_MISSING


async def test_a_missing_metarange_is_named(world):
    with pytest.raises(CorruptError, match=r"_lakebed/metaranges/gone\.parquet") as caught:
        await world.trees().ranges(MetarangeId("gone"))
    assert caught.value.kind is ErrorKind.FILE_MISSING


async def test_damage_on_the_way_is_fetched_once_more(world):
    tree = await world.plant(range(500))
    spoilt = set()

    def spoil_once(data):
        if data in spoilt:
            return data
        spoilt.add(data)
        return data[:-20]

    world.store.spoil = spoil_once
    assert len(await scanned(world.trees(), tree)) == 500
    assert set(world.store.gets.values()) == {2}


async def test_damage_that_stays_is_refused_and_named(world):
    tree = await world.plant(range(500))
    damaged = range_key((await world.trees().ranges(tree))[0].id)
    data = bytearray(await world.store.get(damaged))
    data[200] ^= 1
    await world.store.put(damaged, bytes(data), when=PutMode.OVERWRITE)
    world.store.gets.clear()
    trees = world.trees()

    for _ in range(2):
        with pytest.raises(CorruptError, match=damaged) as caught:
            await scanned(trees, tree)
        assert caught.value.kind is ErrorKind.CHECKSUM_MISMATCH
    assert world.store.gets[damaged] == 4, "two tries each time: a failure is not remembered"


async def test_a_range_in_place_of_another_is_refused(world):
    tree = await world.plant(range(500))
    first, second = [range_key(r.id) for r in (await world.trees().ranges(tree))[:2]]
    await world.store.copy(second, first)

    with pytest.raises(CorruptError, match=first) as caught:
        await world.trees().lookup(tree, key(0))
    assert caught.value.kind is ErrorKind.CHECKSUM_MISMATCH


async def test_a_range_of_a_newer_version_is_refused_at_once(world):
    tree = await world.plant(range(50))
    name = range_key((await world.trees().ranges(tree))[0].id)
    newer = FileKind(name="range", version=2, schema=RANGE_FILE.schema, sort_key="key")
    await world.store.put(name, parquet.encode(newer, numbered(range(50))), when=PutMode.OVERWRITE)
    world.store.gets.clear()

    with pytest.raises(CorruptError, match="upgrade") as caught:
        await scanned(world.trees(), tree)
    assert caught.value.kind is ErrorKind.NEWER_VERSION
    assert world.store.gets[name] == 1


async def test_what_a_process_wrote_it_need_not_fetch(world):
    trees = world.trees()
    tree = await world.plant(range(500), trees)
    applied = await trees.apply(tree, put(7, 350), nonce=world.nonce)

    assert len(await scanned(trees, applied.id)) == 500
    assert world.store.gets == {}


async def test_one_change_reads_and_writes_one_range_however_large_the_tree(world):
    for size in (500, 5_000):
        tree = await world.plant(range(size))
        world.store.gets.clear()
        world.store.puts.clear()
        await world.trees().apply(tree, put(333), nonce=world.nonce)

        assert len(world.store.gets) == len(world.store.puts) == 2, "a range and the metarange"


async def test_a_diff_reads_only_what_differs(world):
    left = await world.plant(range(5_000))
    right = (await world.trees().apply(left, put(333, 4_444), nonce=world.nonce)).id
    world.store.gets.clear()
    blocks = [block async for block in world.trees().diff(left, right)]

    assert sum(b.num_rows for b in blocks) == 2
    assert len(world.store.gets) == 2 + 4


async def test_a_merge_takes_ranges_whole_where_one_side_changed(world):
    base = await world.plant(range(5_000))
    source = (await world.trees().apply(base, put(100, 2_000), nonce=world.nonce)).id
    dest = (await world.trees().apply(base, put(1_000, 2_001), nonce=world.nonce)).id
    world.store.puts.clear()
    merged = await world.trees().merge(base, source, dest, strategy=MergeStrategy.NONE, nonce=world.nonce)

    assert merged.counts.changed == 2
    assert len(world.store.puts) == 2, "the range that both changed, and the metarange"


async def test_a_merge_into_what_did_not_change_is_the_source(world):
    base = await world.plant(range(5_000))
    source = (await world.trees().apply(base, put(100, 2_000, 9_000), nonce=world.nonce)).id
    world.store.puts.clear()
    merged = await world.trees().merge(base, source, base, strategy=MergeStrategy.NONE, nonce=world.nonce)

    assert merged.id == source
    assert (merged.counts.added, merged.counts.changed) == (1, 2)
    assert world.store.puts == []


async def test_importing_the_same_again_writes_nothing(world):
    dest, source = await world.plant(range(1_000)), await world.plant(range(300, 600))
    once = await world.trees().replace_prefixes(
        dest, ["k000003", "k000004", "k000005"], source, nonce=world.nonce
    )
    world.store.puts.clear()
    twice = await world.trees().replace_prefixes(
        once.id, ["k000003", "k000004", "k000005"], source, nonce=world.nonce
    )

    assert twice.id == once.id
    assert world.store.puts == []


async def test_repositories_that_share_a_cache_do_not_see_each_others_trees(world, tmp_path):
    world.folder = tmp_path
    tree = await world.plant(range(50), world.trees(scope="one"))
    await world.store.delete([metarange_key(tree)])

    assert sum(r.count for r in await world.trees(scope="one").ranges(tree)) == 50
    with pytest.raises(CorruptError):
        await world.trees(scope="two").ranges(tree)


async def scanned(trees, tree):
    return [k for block in [b async for b in trees.scan(tree)] for k in block.column("key").to_pylist()]


async def test_a_tree_of_an_earlier_version_is_read_and_its_ranges_are_shared(world, tmp_path):
    trees = world.trees()
    tree = await world.plant(range(500), trees)
    old = []
    for info in await trees.ranges(tree):
        name = RangeId(f"{info.hash}-{'0' * 20}")
        await world.store.put(range_key(name), await world.store.get(range_key(info.id)))
        old.append(replace(info, id=name))
    block = metarange_block(old)
    before = MetarangeId(f"{metarange_hash(block)}-{'0' * 20}")
    data = parquet.encode(replace(METARANGE_FILE, version=1), block)
    await world.store.put(metarange_key(before), data)

    world.folder = tmp_path
    for _ in range(2):  # the second process finds the first one's files in the cache
        reader = world.trees(scope="lake-uid")
        blocks = [block async for block in reader.scan(before)]
        assert sum(block.num_rows for block in blocks) == 500
    applied = await world.trees().apply(before, put(7), nonce=world.nonce)
    shared = {info.id for info in await world.trees().ranges(applied.id)} & {info.id for info in old}

    assert len(shared) == len(old) - 1
    assert len(applied.id) == 64
