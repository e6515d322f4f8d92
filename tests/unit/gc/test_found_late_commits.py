"""Found by simulation: an operation that was given up stores its commit after a mark has listed all of them.

The mark has condemned what the commit is built on, and lists files below it, once. Nothing names the commit and no operation
can, but somebody may by its id. The next mark sees it: whoever names it until then finds all that is below it kept,
and whoever comes later is refused. Tried before every single step.
"""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from lakebed.limits import PENDING_TIMEOUT_SECONDS
from lakebed.model.ids import CommitId
from lakebed.refs.keys import COMMITS_PREFIX
from lakebed.staging.appending import SegmentUse
from lakebed.testing.lake import COMMIT
from lakebed.versioning.merge import MergeRequest
from tests.unit.gc.test_races import BUILDS, OTHER, before_call, require_kept, require_safe, succeeds
from tests.unit.gc.world import DAY, Listed, World, open_world


async def a_branch_deleted_under_a_commit(world: World) -> str:
    """Return the condemned commit that the late one is built on."""
    base = await world.lake.commit("exp", a="1")
    await world.lake.put("exp", b="1")

    async def delete() -> None:
        await world.lake.catalog.branches.delete("lake", "exp")

    await _hold_up(world, world.lake.catalog.commits.commit("lake", "exp", COMMIT), delete)
    return base


async def a_merge_taken_for_dead(world: World) -> str:
    base = await world.lake.commit("exp", a="1")
    await world.lake.catalog.branches.delete("lake", "exp")

    async def seem_dead() -> None:
        world.clock.advance(PENDING_TIMEOUT_SECONDS + 1)

    merging = world.lake.engine.merger.merge(
        world.lake.repo, CommitId(base), OTHER, MergeRequest(commit=COMMIT)
    )
    await _hold_up(world, merging, seem_dead)
    return base


# These build on the tree of a commit and not on the commit: its history may go.
TAKES_THE_TREE = {"ready tree", "record"}

LATE = {"branch deleted": a_branch_deleted_under_a_commit, "taken for dead": a_merge_taken_for_dead}


async def _hold_up(world: World, work: Awaitable[object], meanwhile: Callable[[], Awaitable[None]]) -> None:
    """Let an operation stand still before it stores its commit, while something happens and a mark is published."""
    first: list[Listed] = []

    async def hook(call: str, what: Any) -> None:
        if call == "swap" and what.startswith(COMMITS_PREFIX):
            world.kv.hook = None
            await meanwhile()
            first.append(await world.mark())

    world.kv.hook = hook
    assert not await succeeds(work), "its entry is gone"
    [listed] = first
    [late] = (await world.commits()).commits - listed.commits
    assert not await world.condemned_by(late)
    world.notes["late"] = late


async def late_commit(world: World, way: str) -> tuple[str, str]:
    """Return a commit that no mark has seen, and the one below it, which one has condemned."""
    await world.rules(0)
    await world.lake.commit("main", first="1")
    for name in (OTHER, "exp"):
        await world.lake.catalog.branches.create("lake", name, "main")
    base = await LATE[way](world)
    assert await world.condemned_by(base)
    world.clock.advance(DAY)
    # An operation that was taken for dead has left an entry: the next one drops it.
    await world.lake.commit(OTHER, c="1")
    return world.notes["late"], base


@pytest.mark.parametrize("way", LATE)
@pytest.mark.parametrize("name", BUILDS)
async def test_what_is_built_on_a_late_commit_during_the_next_mark_keeps_all_below_it(
    name: str, way: str
) -> None:
    number, outcomes = 0, set()
    reached = True
    while reached:
        async with open_world(staging_segments=SegmentUse.ALWAYS) as world:
            late, base = await late_commit(world, way)
            made: list[bool] = []

            async def build(world: World = world, late: str = late, made: list[bool] = made) -> None:
                made.append(await succeeds(BUILDS[name](world, late)))

            of = await world.begin()
            done = before_call(world, number, build)
            listed = await world.commits(of)
            await world.publish(of)
            world.kv.hook = None
            reached = bool(done)
            if made == [True]:
                await require_kept(world, name, late, listed)
                assert name in TAKES_THE_TREE or {late, base} <= listed.reachable
            outcomes |= set(made)
        number += 1
    assert outcomes == {True, False}, "the scenario never reached the interesting part"


@pytest.mark.parametrize("way", LATE)
@pytest.mark.parametrize("name", BUILDS)
async def test_the_next_mark_while_something_is_built_on_a_late_commit_keeps_all_below_it(
    name: str, way: str
) -> None:
    number, outcomes = 0, set()
    reached = True
    while reached:
        async with open_world(staging_segments=SegmentUse.ALWAYS) as world:
            late, base = await late_commit(world, way)
            marks: list[Listed] = []

            async def mark(world: World = world, marks: list[Listed] = marks) -> None:
                marks.append(await world.mark())

            before_call(world, number, mark)
            made = await succeeds(BUILDS[name](world, late))
            world.kv.hook = None
            reached = bool(marks)
            if made:
                await require_safe(world, late)
            if marks:
                outcomes.add(made)
                assert not made or {late, base} <= marks[0].reachable
        number += 1
    assert False in outcomes, "the scenario never reached the interesting part"
