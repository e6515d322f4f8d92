"""Who owns a namespace, and what becomes of an owner after another installation has adopted it."""

from contextlib import suppress

import pytest

from lakebed.errors import ConflictError, ErrorKind, FencedError, InvalidInputError
from lakebed.format.owners import OWNERS_FOLDER, Owner, generation_of, owner_key
from lakebed.limits import NAMESPACE_WATCH_SECONDS
from lakebed.model.ids import RepoName, RepoUid
from lakebed.refs.owners import (
    claim,
    deleting_key,
    is_owner,
    marker_key,
    markers,
    newest_generation,
    put_deleting,
    put_marker,
    read_owner,
    require_kept,
    require_owned,
)
from tests.unit.refs.world import Call, Crash, Fault, World


def owner(world: World, generation: int, uid: str = "other") -> Owner:
    return Owner(
        generation=generation,
        uid=RepoUid(uid),
        repository=RepoName("lake"),
        installation="elsewhere",
        at=world.clock.now(),
    )


async def test_a_generation_has_one_owner(world: World) -> None:
    repo = await world.create_repository()
    store = await world.open_store(repo.namespace)
    assert await newest_generation(store) == 0
    assert await markers(store) == [repo.uid]
    await claim(store, owner(world, 1))
    await claim(store, owner(world, 1))
    with pytest.raises(ConflictError, match="elsewhere"):
        await claim(store, owner(world, 1, "third"))
    assert (await read_owner(store, 1)).uid == "other"


async def test_the_greatest_generation_owns_whatever_else_lies_there(world: World) -> None:
    repo = await world.create_repository()
    store = await world.open_store(repo.namespace)
    await store.put(f"{OWNERS_FOLDER}probe-x", b"")
    await require_owned(store, repo)
    assert await is_owner(store, repo.uid)
    for generation in (1, 2, 11):
        await claim(store, owner(world, generation, f"u{generation}"))
    assert await newest_generation(store) == 11
    with pytest.raises(FencedError, match="elsewhere") as caught:
        await require_owned(store, repo)
    assert caught.value.kind is ErrorKind.REPO_TAKEN_OVER
    assert not await is_owner(store, RepoUid("u11")), "it has no marker"
    assert await is_owner(store, repo.uid), "who has taken it over is gone"
    await put_marker(store, RepoName("lake"), RepoUid("u11"))
    assert not await is_owner(store, repo.uid)
    assert await is_owner(store, RepoUid("u11"))


@pytest.mark.parametrize("generation", [0, 1, 12, 9_999_999_999])
def test_keys_of_owner_files_sort_like_generations(generation: int) -> None:
    assert generation_of(owner_key(generation)) == generation
    assert owner_key(generation) <= owner_key(9_999_999_999)
    assert generation_of(f"{OWNERS_FOLDER}probe") is None


async def test_a_bare_repository_where_an_adopted_one_was_deleted_owns_the_namespace(world: World) -> None:
    repo = await world.create_repository()
    store = await world.open_store(repo.namespace)
    await claim(store, owner(world, 1))
    await world.repositories.delete(repo)
    await world.clean()

    restored = await world.create_repository("restored", bare=True)

    await require_owned(store, restored)
    await world.watch.visit(restored, world.clock.now())
    assert await world.repositories.get(restored.name) == restored
    assert (restored.generation, (await read_owner(store, 2)).uid) == (2, restored.uid)


async def test_a_bare_repository_where_none_was_adopted_needs_no_owner_file(world: World) -> None:
    restored = await world.create_repository(bare=True)
    assert restored.generation == 0
    assert await newest_generation(await world.open_store(restored.namespace)) == 0


async def test_data_that_is_being_deleted_cannot_be_adopted(world: World) -> None:
    repo = await world.create_repository()
    store = await world.open_store(repo.namespace)
    await require_kept(store, repo.namespace)
    for _ in range(2):
        await put_deleting(store, repo.uid)
    with pytest.raises(InvalidInputError, match=deleting_key(repo.uid)):
        await require_kept(store, repo.namespace)


async def test_an_adopted_repository_becomes_read_only_within_a_minute(world: World) -> None:
    taken = await world.create_repository()
    other = await world.create_repository("other", "mem://bucket/other")
    assert await world.watch.round(world.clock.now(), seconds=5) == 2
    await claim(await world.open_store(taken.namespace), owner(world, 1))
    assert await world.watch.round(world.clock.now(), seconds=5) == 0, "the next pass is not due"
    world.clock.advance(NAMESPACE_WATCH_SECONDS)
    await world.watch.round(world.clock.now(), seconds=5)
    found = await world.repositories.get(taken.name)
    assert "elsewhere" in found.taken_over_by
    assert not (await world.repositories.get(other.name)).taken_over_by
    world.clock.advance(NAMESPACE_WATCH_SECONDS)
    assert await world.watch.round(world.clock.now(), seconds=5) == 1, "nothing more is done for it"


async def test_one_namespace_out_of_reach_holds_up_no_other_and_time_is_bounded(world: World) -> None:
    repos = [await world.create_repository(f"r{n}", f"mem://bucket/r{n}") for n in range(5)]
    open_store = world.open_store

    async def unreachable(namespace: str) -> object:
        world.clock.advance(2)
        if namespace == repos[1].namespace:
            raise FencedError(ErrorKind.LEASE_LOST, "no")
        return await open_store(namespace)

    world.watch._open_store = unreachable
    visits = [await world.watch.round(world.clock.now(), seconds=5) for _ in range(3)]
    assert sum(visits) == 5
    assert max(visits) < 5, "a round ends in time, and the next one goes on"


async def test_the_data_of_an_adopted_namespace_is_not_deleted_with_the_old_repository(world: World) -> None:
    repo = await world.create_repository()
    await world.whole.put("bucket/lake/data/x/object", b"1")
    await world.repositories.delete(repo, delete_data=True)
    store = await world.open_store(repo.namespace)
    await put_marker(store, RepoName("lake"), RepoUid("other"))
    await claim(store, owner(world, 1))
    await world.clean()
    assert "bucket/lake/data/x/object" in await world.objects()
    assert f"bucket/lake/{owner_key(1)}" in await world.objects()


async def test_a_deletion_that_dies_leaves_no_mark_in_a_namespace_of_a_later_owner(world: World) -> None:
    repo = await world.create_repository()
    await world.repositories.delete(repo, delete_data=True)
    store = await world.open_store(repo.namespace)
    await put_marker(store, RepoName("lake"), RepoUid("other"))
    await claim(store, owner(world, 1))
    await store.delete([marker_key(repo.uid)])

    async def die(call: Call) -> Fault | None:
        return Fault.CRASH_BEFORE if call.method in {"delete", "remove_if_empty"} else None

    world.store_hook = die
    with suppress(Crash):
        await world.clean()
    world.store_hook = None
    await require_kept(store, repo.namespace)


async def test_a_claim_during_the_deletion_stops_it_or_is_refused(world: World) -> None:
    """Both say what they do first and look second, so at least one sees the other."""
    repo = await world.create_repository()
    for n in range(3):
        await world.whole.put(f"bucket/lake/data/x/{n}", b"1")
    await world.repositories.delete(repo, delete_data=True)
    store = await world.open_store(repo.namespace)
    refused = False

    async def race(call: Call) -> Fault | None:
        nonlocal refused
        if call.method == "delete" and not refused:
            await claim(store, owner(world, 1))
            with pytest.raises(InvalidInputError):
                await require_kept(store, repo.namespace)
            refused = True
        return None

    world.store_hook = race
    await world.clean()
    assert refused
