"""A remembered diff is the same diff, within any bounds, and is computed once."""

import pyarrow as pa
import pytest
from tests.unit.committed.world import World, key, put

from lakebed.committed import diff
from lakebed.format.merge import as_tombstones, newest_wins

BOUNDS = [
    {},
    {"start": key(150)},
    {"start": key(451)},
    {"after": key(450)},
    {"prefix": "k000004"},
    {"prefix": "k0000045"},
    {"prefix": "none"},
    {"start": key(900), "prefix": "k000004"},
]


async def rows(trees, left, right, **options):
    return [
        row for block in [b async for b in trees.diff(left, right, **options)] for row in block.to_pylist()
    ]


@pytest.fixture
async def world():
    made = World()
    made.left = await made.plant(range(1_000))
    gone = as_tombstones(pa.array([key(n) for n in range(0, 1_000, 7)]))
    changes = newest_wins([put(*range(3, 1_200, 9)), gone])
    made.right = (await made.trees().apply(made.left, changes, nonce=made.nonce)).id
    return made


@pytest.mark.parametrize("bounds", BOUNDS)
async def test_a_remembered_diff_is_the_same_within_any_bounds(world, bounds):
    trees = world.trees()
    plain = await rows(trees, world.left, world.right, **bounds)

    assert await rows(trees, world.left, world.right, remember=True, **bounds) == plain
    assert await rows(trees, world.left, world.right, remember=True) == await rows(
        trees, world.left, world.right
    )
    assert await rows(trees, world.left, world.right, remember=True, **bounds) == plain
    assert await rows(trees, world.right, world.left, remember=True, **bounds) == await rows(
        trees, world.right, world.left, **bounds
    )


async def test_the_pages_of_a_remembered_diff_compare_every_span_once(world, monkeypatch):
    compared = []
    original = diff.diff_blocks

    def counted(left, right):
        compared.append((left.num_rows, right.num_rows))
        return original(left, right)

    monkeypatch.setattr(diff, "diff_blocks", counted)
    trees = world.trees()
    await rows(trees, world.left, world.right, remember=True)
    once = len(compared)

    for start in range(0, 1_200, 50):
        await rows(trees, world.left, world.right, remember=True, start=key(start))
    assert len(compared) == once


async def test_what_is_remembered_makes_room_like_everything_else(world):
    trees = world.trees(bytes_max=1)

    assert await rows(trees, world.left, world.right, remember=True) == await rows(
        trees, world.left, world.right
    )
