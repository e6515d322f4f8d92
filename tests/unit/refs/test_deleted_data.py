"""Uploads that end after their repository was deleted with its data: they are freed, and nothing of a later repository is."""

from contextlib import suppress

import pytest

from lakebed.limits import GRACE_SECONDS, LATE_UPLOAD_SECONDS
from lakebed.model.ids import RepoUid
from lakebed.model.repository import Repository
from lakebed.refs.keys import CLEANUP_PARTITION
from lakebed.refs.owners import deleting_key, put_deleting, put_marker
from tests.unit.refs.world import Call, Crash, Fault, World

LATE = f"data/{'a' * 20}/{'b' * 20}"
LATER = f"data/{'a' * 20}/{'c' * 20}"
OWN = "_lakebed/ranges/r.parquet"


async def delete_with_data(world: World) -> tuple[Repository, str]:
    """A repository whose data was deleted and freed once, and whose client then ends its uploads."""
    repo = await world.create_repository()
    await world.repositories.delete(repo, delete_data=True)
    await world.clean()
    store = await world.open_store(repo.namespace)
    await store.put(LATE, b"x")
    await store.put(OWN, b"x")
    await store.create_upload(LATER)
    return repo, "bucket/lake/"


async def uploads(world: World) -> list[str]:
    return [each.key async for page in world.whole.list_uploads() for each in page]


async def test_uploads_that_end_after_the_grace_are_freed_a_day_later(world: World) -> None:
    await delete_with_data(world)
    await world.whole.put("bucket/lake/mine/readme", b"x")
    await world.whole.put("bucket/lake/data/mine", b"x")

    world.clock.advance(LATE_UPLOAD_SECONDS)
    await world.cleaner.clean_once()

    assert await world.objects() == ["bucket/lake/data/mine", "bucket/lake/mine/readme"]
    assert await uploads(world) == []
    assert await world.partitions() <= {"lakebed"}


@pytest.mark.parametrize("fault", [Fault.CRASH_BEFORE, Fault.CRASH_AFTER, Fault.REFUSED, Fault.LOST_REPLY])
async def test_late_uploads_are_freed_wherever_the_cleaner_broke_off(world: World, fault: Fault) -> None:
    for broken in range(1, 20):
        await delete_with_data(world)
        calls: list[Call] = []

        async def break_off(call: Call, calls: list[Call] = calls, broken: int = broken) -> Fault | None:
            calls.append(call)
            return fault if len(calls) == broken else None

        world.clock.advance(LATE_UPLOAD_SECONDS)
        world.store_hook, world.kv.hook = break_off, break_off
        with suppress(Crash):
            await world.cleaner.clean_once()
        world.restart()
        await world.clean_late()

        assert await world.objects() == []
        assert await uploads(world) == []
        assert await world.partitions() <= {"lakebed"}
        if len(calls) < broken:
            return
    raise AssertionError("the last call was not reached")


@pytest.mark.parametrize("delete_data", [None, False])
async def test_what_a_later_repository_wrote_stays_even_if_that_was_deleted_too(
    world: World, delete_data: bool | None
) -> None:
    repo = await world.create_repository()
    await world.repositories.delete(repo, delete_data=True)
    await world.clean()
    again = await world.create_repository("again")
    store = await world.open_store(again.namespace)
    await store.put(LATER, b"x")
    if delete_data is not None:
        await world.repositories.delete(again, delete_data=delete_data)

    await world.clean_late()

    assert "bucket/lake/" + LATER in await world.objects()
    assert CLEANUP_PARTITION not in await world.partitions()


async def test_a_copy_of_the_mark_that_arrives_late_does_not_delete_what_a_later_repository_left(
    world: World,
) -> None:
    repo = await world.create_repository()
    await world.repositories.delete(repo, delete_data=True)
    await world.clean()
    again = await world.create_repository("again")
    store = await world.open_store(again.namespace)
    await store.put(LATER, b"x")
    world.clock.advance(1)
    await put_deleting(store, repo.uid)
    await world.repositories.delete(again)

    await world.clean_late()

    assert await world.objects() == ["bucket/lake/" + LATER]


async def test_a_repository_that_is_created_between_a_listing_and_its_deletion_keeps_everything(
    world: World,
) -> None:
    repo = await world.create_repository()
    await world.repositories.delete(repo, delete_data=True)
    await world.clean()
    world.clock.advance(LATE_UPLOAD_SECONDS)
    store = await world.open_store(repo.namespace)
    created: list[Repository] = []
    listed = store.list

    async def list_slowly(prefix: str = ""):  # type: ignore[no-untyped-def]
        async for infos in listed(prefix):
            yield infos
        if not created:
            created.append(await world.create_repository("again"))
            await store.put(LATER, b"x")

    async def open_store(_namespace: str) -> object:
        return store

    store.list = list_slowly
    world.cleaner._open_store = open_store  # type: ignore[assignment]
    await world.cleaner.clean_once()

    assert created
    assert await world.objects() == [
        f"bucket/lake/_lakebed/owner-{created[0].uid}",
        "bucket/lake/" + LATER,
    ]


@pytest.mark.parametrize("below", ["data/" + "a" * 20, "_lakebed/nested"])
async def test_a_repository_below_the_namespace_keeps_everything(world: World, below: str) -> None:
    await delete_with_data(world)
    await world.whole.delete(["bucket/lake/" + LATE, "bucket/lake/" + OWN])
    nested = await world.create_repository("nested", f"mem://bucket/lake/{below}")
    await (await world.open_store(nested.namespace)).put(LATE, b"x")

    await world.clean_late()

    assert await world.objects() == sorted(
        [f"bucket/lake/{below}/_lakebed/owner-{nested.uid}", f"bucket/lake/{below}/{LATE}"]
    )


async def test_a_creation_under_way_puts_it_off(world: World) -> None:
    repo, folder = await delete_with_data(world)
    store = await world.open_store(repo.namespace)
    await put_marker(store, repo.name, RepoUid("other"))
    world.clock.advance(LATE_UPLOAD_SECONDS)
    await world.cleaner.clean_once()
    assert folder + LATE in await world.objects()

    await store.delete(["_lakebed/owner-other"])
    world.clock.advance(LATE_UPLOAD_SECONDS)
    await world.cleaner.clean_once()
    assert await world.objects() == []
    assert await world.partitions() <= {"lakebed"}


async def test_what_the_store_keeps_goes_when_no_other_process_has_it_open(world: World) -> None:
    repo = await world.create_repository()
    await world.repositories.delete(repo, delete_data=True)
    await world.clean()
    answers = [False, True]
    removed = []
    store = await world.open_store(repo.namespace)

    async def remove_if_empty() -> bool:
        removed.append(await world.objects())
        return answers.pop(0)

    store.remove_if_empty = remove_if_empty

    async def open_store(_namespace: str) -> object:
        return store

    world.cleaner._open_store = open_store  # type: ignore[assignment]
    for _ in range(3):
        world.clock.advance(LATE_UPLOAD_SECONDS)
        await world.cleaner.clean_once()

    assert (removed, answers) == ([[], []], [])


async def test_a_creation_that_is_refused_leaves_late_uploads_to_the_cleaner(world: World) -> None:
    repo, _ = await delete_with_data(world)
    with pytest.raises(Exception, match="it holds data"):
        await world.create_repository("again")
    assert f"bucket/lake/{deleting_key(repo.uid)}" in await world.objects()
    world.clock.advance(2 * GRACE_SECONDS)
    await world.clean_late()
    await world.clean_late()
    assert await world.objects() == []
