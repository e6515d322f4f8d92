"""A purge frees what a repository that was deleted without its data has left, and nothing of anybody else's."""

import pytest

from lakebed.errors import AlreadyExistsError, ErrorKind, InvalidInputError, LakebedError
from lakebed.refs.leftovers import StorageUse
from tests.unit.refs.test_repositories import STEPS, Steps
from tests.unit.refs.world import Crash, Fault, World

PLACE = "mem://bucket/lake"
DATA = f"data/{'0' * 20}/{'v' * 20}"


@pytest.fixture
def world() -> World:
    return World()


async def leave(world: World) -> None:
    """Leave a repository's data without the repository."""
    repo = await world.create_repository()
    store = await world.open_store(repo.namespace)
    await store.put(DATA, b"1234")
    await store.put("_lakebed/ranges/r.parquet", b"12")
    await world.repositories.delete(repo)
    await world.clean()


async def test_what_was_left_is_counted_and_goes_after_the_grace(world: World) -> None:
    await leave(world)
    await world.whole.put("bucket/lake/mine/readme", b"")
    await world.whole.put("bucket/other", b"")
    freed = StorageUse(objects=1, files=1, size=6)
    assert await world.repositories.purge(PLACE, dry_run=True) == freed
    await world.clean()
    assert len(await world.objects()) == 4, "a dry run deletes nothing, and leaves nothing"

    assert await world.repositories.purge(PLACE) == freed
    await world.cleaner.clean_once()
    assert f"bucket/lake/{DATA}" in await world.objects(), "a grace is a grace"
    await world.clean()
    assert f"bucket/lake/{DATA}" not in await world.objects()
    await world.clean_late()
    assert await world.objects() == ["bucket/lake/mine/readme", "bucket/other"]
    assert (await world.repositories.list()).results == ()
    await world.create_repository("again", "mem://bucket/fresh")


@pytest.mark.parametrize("place", [PLACE, "mem://bucket", f"{PLACE}/below"])
async def test_the_place_of_a_repository_is_refused_above_and_below_too(world: World, place: str) -> None:
    repo = await world.create_repository()
    store = await world.open_store(place)
    await store.put(DATA, b"1234")
    before = await world.objects()
    with pytest.raises(InvalidInputError, match="in use") as caught:
        await world.repositories.purge(place)
    assert caught.value.kind is ErrorKind.NAMESPACE_IN_USE
    await world.clean()
    assert await world.objects() == before
    assert await world.repositories.get(repo.name) == repo


async def test_the_place_of_another_installation_is_refused(world: World) -> None:
    await leave(world)
    await world.whole.put("bucket/lake/_lakebed/owner-somebody", b"")
    with pytest.raises(InvalidInputError, match="in use"):
        await world.repositories.purge(PLACE)
    await world.clean()
    assert f"bucket/lake/{DATA}" in await world.objects()


@pytest.mark.parametrize("key", ["data/readme", "data/a/b", f"data/{'0' * 20}/{'w' * 20}", f"{DATA}/x"])
async def test_files_that_no_repository_has_put_there_are_not_deleted(world: World, key: str) -> None:
    await leave(world)
    await world.whole.put(f"bucket/lake/{key}", b"")
    with pytest.raises(InvalidInputError, match="no repository has put there"):
        await world.repositories.purge(PLACE)
    await world.clean()
    assert f"bucket/lake/{DATA}" in await world.objects()


async def test_a_place_where_nothing_is_left_is_a_mistake(world: World) -> None:
    with pytest.raises(InvalidInputError, match="nothing of a repository"):
        await world.repositories.purge(PLACE)
    await world.clean()
    assert await world.objects() == []


async def test_a_place_is_purged_once_at_a_time(world: World) -> None:
    await leave(world)

    async def meanwhile() -> None:
        with pytest.raises(AlreadyExistsError):
            await world.repositories.purge(PLACE)

    steps = Steps(world, 2, meanwhile)
    await world.repositories.purge(PLACE)
    assert steps.reached
    with pytest.raises(InvalidInputError, match="grace"):
        await world.repositories.purge(PLACE)


@pytest.mark.parametrize("fault", list(Fault))
async def test_whatever_happens_at_any_step_of_a_purge_all_or_nothing_is_deleted(
    world: World, fault: Fault
) -> None:
    for at in range(1, STEPS):
        world = World(seed=at)
        await leave(world)
        steps = Steps(world, at, fault)
        done = True
        try:
            await world.repositories.purge(PLACE)
        except (Crash, LakebedError):
            done = False
        world.restart()
        for _ in range(3):
            await world.clean_late()
        left = await world.objects()
        assert left in ([], ["bucket/lake/_lakebed/ranges/r.parquet", f"bucket/lake/{DATA}"]), at
        assert not (done and left), at
        assert await world.partitions() <= {"lakebed"}, at
        if not steps.reached:
            break
    else:
        pytest.fail("a purge has more steps than the test knows")
