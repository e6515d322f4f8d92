"""Before a sweep deletes: refs are dumped, the sweep is announced, and the owner of the namespace is checked."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from lakebed.env.clock import after
from lakebed.env.work import InlineWorkers
from lakebed.errors import ErrorKind, FencedError, NotFoundError, PreconditionError
from lakebed.format.gc import SWEEP_STARTED, sweep_started_key
from lakebed.format.owners import Owner, owner_key
from lakebed.gc.commit_lists import RunToken
from lakebed.model.gc import RunKind
from lakebed.model.ids import RepoName, RepoUid
from lakebed.model.segments import SEGMENTS_FOLDER, era_at, segment_key
from lakebed.objects.port import ObjectStore
from lakebed.refs.dump_files import list_dumps, open_dump
from lakebed.refs.owners import claim
from lakebed.refs.segment_sweeper import SegmentSweeper
from tests.unit.gc.world import DAY, World


async def adopt(world: World, store: ObjectStore, generation: int = 1) -> None:
    await claim(
        store,
        Owner(
            generation=generation,
            uid=RepoUid("other"),
            repository=RepoName("lake"),
            installation="elsewhere",
            at=world.clock.now(),
        ),
    )


async def marked(world: World) -> tuple[str, RunToken, str]:
    """A repository with a mark that has condemned a commit; return that, and a sweep."""
    old = await world.lake.commit("main", a="1")
    await world.lake.commit("main", a="2")
    world.clock.advance(10 * DAY)
    await world.lake.commit("main", a="3")
    await world.rules(0)
    of = await world.begin()
    await world.commits(of)
    mark = await world.publish(of)
    await world.gc.end(world.lake.repo, of, outcome="done")
    assert await world.condemned_by(old)
    return old, await world.begin(kind=RunKind.SWEEP), mark.run


async def test_a_dump_with_what_is_condemned_and_the_intent_come_before_the_check(world: World) -> None:
    old, of, mark = await marked(world)
    store = await world.lake.engine.store_of(world.lake.repo)
    steps: list[str] = []
    put, listing = store.put, store.list

    async def watched_put(key: str, data: bytes, **options: Any) -> Any:
        steps.append(key)
        return await put(key, data, **options)

    def watched_list(prefix: str = "", **options: Any) -> Any:
        if prefix == "_lakebed/owners/":
            steps.append("check")
        return listing(prefix, **options)

    store.put, store.list = watched_put, watched_list  # type: ignore[method-assign]
    await world.gc.start_sweep(world.lake.repo, of, mark)
    (name,) = await list_dumps(store, world.lake.repo.uid)
    assert steps == [name.key, sweep_started_key(mark), "check"]
    dump = await open_dump(store, name, InlineWorkers())
    condemned = {c.id async for group in dump.commits() for c in group if c.condemned_by}
    assert old in condemned
    assert SWEEP_STARTED.open(await store.get(sweep_started_key(mark))).uid == world.lake.repo.uid
    await world.gc.start_sweep(world.lake.repo, of, mark)
    assert len(await list_dumps(store, world.lake.repo.uid)) == 2, "a full one each time"


async def test_a_sweep_of_an_adopted_namespace_stops(world: World) -> None:
    _, of, mark = await marked(world)
    store = await world.lake.engine.store_of(world.lake.repo)
    await world.gc.renew(world.lake.repo, of)
    await adopt(world, store)
    stopped: list[Callable[[], Any]] = [
        lambda: world.gc.start_sweep(world.lake.repo, of, mark),
        lambda: world.gc.renew(world.lake.repo, of),
    ]
    for step in stopped:
        with pytest.raises(FencedError, match="elsewhere") as caught:
            await step()
        assert caught.value.kind is ErrorKind.REPO_TAKEN_OVER


async def test_a_sweep_needs_its_lease_and_a_mark_that_counts(world: World) -> None:
    _, of, mark = await marked(world)
    with pytest.raises(NotFoundError):
        await world.gc.start_sweep(world.lake.repo, of, "none")
    with pytest.raises(FencedError):
        await world.gc.start_sweep(world.lake.repo, replace(of, token=of.token + 1), mark)


async def test_nothing_is_collected_in_a_repository_that_was_adopted_a_few_days_ago(world: World) -> None:
    repo = replace(world.lake.repo, gc_not_before=after(world.clock.now(), 7 * DAY))
    for kind in RunKind:
        with pytest.raises(PreconditionError, match=r"7\.0 more days"):
            await world.gc.begin(repo, kind, holder="", grace_seconds=0)
    world.clock.advance(7 * DAY)
    await world.gc.begin(repo, RunKind.MARK, holder="", grace_seconds=0)


async def test_a_fenced_repository_refuses_writes_and_can_be_deleted_with_force(world: World) -> None:
    await world.lake.commit("main", a="1")
    await world.lake.engine.repositories.fence(world.lake.repo, "installation b")
    catalog = world.lake.catalog
    for force in (False, True):
        with pytest.raises(FencedError, match="installation b"):
            await catalog.objects.upload("lake", "main", "b", b"2", force=force)
        with pytest.raises(FencedError, match="installation b"):
            await catalog.repositories.delete("lake", delete_data=True, force=force)
    with pytest.raises(FencedError):
        await catalog.gc.begin("lake", RunKind.MARK)
    with pytest.raises(FencedError):
        await catalog.repositories.delete("lake")
    assert await world.lake.show("main") == {"a": "1"}, "it can still be read"
    await catalog.repositories.delete("lake", force=True)


async def test_segments_of_a_later_owner_are_not_swept(world: World) -> None:
    repo = world.lake.repo
    store = await world.lake.engine.store_of(repo)
    sweeper = SegmentSweeper(
        world.kv,
        open_store=lambda _namespace: world.lake.engine.store_of(repo),
        clock=world.clock,
        ids=world.lake.engine.parts.ids,
    )
    await world.lake.put("main", a="1")
    key = segment_key(f"{era_at(world.clock.now()):08}-0123456789abcdefghij")
    await store.put(key, b"of the new owner")
    world.clock.advance(DAY)
    names = [info.key async for page in store.list(SEGMENTS_FOLDER) for info in page]
    assert key in names
    await adopt(world, store)
    kept = replace(repo, gc_not_before=after(world.clock.now(), DAY))
    assert await sweeper.sweep(kept, world.clock.now()) == 0
    with pytest.raises(FencedError):
        await sweeper.sweep(repo, world.clock.now())
    assert await store.head(key) is not None
    await store.delete([owner_key(1)])
    assert await sweeper.sweep(repo, world.clock.now()) == 1
