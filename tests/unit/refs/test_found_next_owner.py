"""Found in review: a clean-up that is done again deleted what a new repository had put into the namespace meanwhile."""

import pytest

from lakebed.refs.keys import CLEANUP_PARTITION
from lakebed.refs.owners import deleting_key
from tests.unit.refs.world import Call, Crash, Fault, World


async def test_a_cleanup_that_is_done_again_leaves_the_next_owner_of_the_namespace_alone(
    world: World,
) -> None:
    repo = await world.create_repository()
    store = await world.open_store(repo.namespace)
    await store.put("data/old/o", b"x")
    await world.repositories.delete(repo, delete_data=True)

    async def die_before_the_end(call: Call) -> Fault | None:
        last = call.method == "delete_rows" and call.where == CLEANUP_PARTITION
        return Fault.CRASH_BEFORE if last else None

    world.kv.hook = die_before_the_end
    with pytest.raises(Crash):
        await world.clean()
    assert await world.objects() == [f"bucket/lake/{deleting_key(repo.uid)}"]
    world.restart()
    again = await world.create_repository()
    await store.put("data/new/o", b"x")
    assert (await world.clean()).repositories == 1
    assert await world.objects() == [f"bucket/lake/_lakebed/owner-{again.uid}", "bucket/lake/data/new/o"]


async def test_a_slow_cleaner_deletes_nothing_that_came_after_a_quick_one(world: World) -> None:
    repo = await world.create_repository()
    store = await world.open_store(repo.namespace)
    await store.put("_lakebed/ranges/r", b"x")
    await store.put("data/old/o", b"x")
    await world.repositories.delete(repo, delete_data=True)

    async def be_overtaken(call: Call) -> None:
        if call.method == "delete":
            world.store_hook = None
            await world.cleaner.clean_once()
            await world.create_repository()
            await store.put("_lakebed/ranges/new", b"x")

    world.store_hook = be_overtaken
    await world.clean()
    assert "bucket/lake/_lakebed/ranges/new" in await world.objects()
