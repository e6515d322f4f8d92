import pytest
from tests.unit.committed.world import World
from tests.unit.format.test_cut import numbered

from lakebed.committed.replace import Zones
from lakebed.committed.scan import past

END = b"\xff"


@pytest.mark.parametrize(
    ("prefixes", "gaps"),
    [
        ([], [(b"", END)]),
        ([""], []),
        (["b/"], [(b"", b"b/"), (b"b0", END)]),
        (["b/", "b/c/", "b/"], [(b"", b"b/"), (b"b0", END)]),
        (["d", "b/"], [(b"", b"b/"), (b"b0", b"d"), (b"e", END)]),
        (["b", "c"], [(b"", b"b"), (b"d", END)]),
    ],
)
def test_gaps_are_what_no_prefix_covers(prefixes, gaps):
    assert Zones.under(prefixes).gaps(b"", END) == gaps


def test_gaps_are_trimmed_to_what_is_asked_for():
    zones = Zones.under(["b", "d", "f"])

    assert zones.gaps(b"b", b"b\x00") == []
    assert zones.gaps(b"bz", b"e") == [(b"c", b"d")]
    assert zones.gaps(b"e", b"e5") == [(b"e", b"e5")]
    assert zones.gaps(b"x", b"z") == [(b"x", b"z")]
    assert Zones.under(["b/", "b/c/"]).gaps(b"b/x", b"b/y") == []


def test_past_a_prefix_comes_nothing_that_begins_with_it():
    assert past("") is None
    assert past("a/") == b"a0"
    assert past("\U0010ffff") > "\U0010ffff\U0010ffff".encode()


async def test_ranges_outside_the_prefixes_are_shared():
    world = World()
    trees = world.trees()
    dest = await world.plant(range(5_000), trees)
    source = await world.plant(range(2_000, 2_100), trees)
    replaced = await trees.replace_prefixes(dest, ["k00002"], source, nonce=world.nonce)

    before, after = set(await trees.ranges(dest)), set(await trees.ranges(replaced.id))
    assert replaced.counts.removed == 900
    assert len(after - before) < 5 < len(before & after)
    kept = [
        k for block in [b async for b in trees.scan(replaced.id)] for k in block.column("key").to_pylist()
    ]
    assert kept == numbered([*range(2_100), *range(3_000, 5_000)]).column("key").to_pylist()


async def test_what_is_equal_on_both_sides_is_not_even_read():
    world = World()
    dest, source = await world.plant(range(5_000)), await world.plant(range(5_000))
    world.store.gets.clear()
    replaced = await world.trees().replace_prefixes(dest, [""], source, nonce=world.nonce)

    assert replaced.id == dest
    assert len(world.store.gets) == 2, "the two metaranges"
