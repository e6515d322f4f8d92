"""Whoever builds on a commit at the moment it expires is seen or refused: tried before every single step.

First the operation runs whole between two steps of the collector, then the collector between two steps of the
operation. On a store without fences the refs are tentative for a while.
"""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from lakebed.errors import LakebedError
from lakebed.model.ids import BranchName, CommitId
from lakebed.refs.condemned import is_final
from lakebed.staging.appending import SegmentUse
from lakebed.testing.lake import COMMIT
from lakebed.versioning.merge import MergeRequest
from tests.unit.gc.world import DAY, World, open_world

Build = Callable[[World, str], Awaitable[object]]

OTHER = BranchName("other")


async def tag(world: World, commit: str) -> None:
    await world.lake.catalog.tags.create("lake", "late", commit)


async def branch(world: World, commit: str) -> None:
    await world.lake.catalog.branches.create("lake", "late", commit)


async def hard_reset(world: World, commit: str) -> None:
    await world.lake.engine.resetter.hard_reset(world.lake.repo, OTHER, CommitId(commit))


async def merge(world: World, commit: str) -> None:
    request = MergeRequest(commit=COMMIT)
    await world.lake.engine.merger.merge(world.lake.repo, CommitId(commit), OTHER, request)


BUILDS: dict[str, Build] = {"tag": tag, "branch": branch, "hard reset": hard_reset, "merge": merge}


async def expiring(world: World) -> str:
    """Return a commit that the next run condemns, and that `other` does not have."""
    await world.rules(0)
    await world.lake.commit("main", first="1")
    await world.lake.catalog.branches.create("lake", "other", "main")
    commit = await world.lake.commit("main", a="1")
    await world.lake.commit("main", b="1")
    world.clock.advance(DAY)
    return commit


def before_call(world: World, number: int, action: Callable[[], Awaitable[object]]) -> list[int]:
    """Do something before the call with this number; the list that is returned has it once it was done."""
    done: list[int] = []
    calls = 0

    async def hook(_call: str, _what: Any) -> None:
        nonlocal calls
        calls += 1
        if calls == number + 1:
            world.kv.hook = None
            done.append(number)
            await action()

    world.kv.hook = hook
    return done


async def succeeds(work: Awaitable[object]) -> bool:
    try:
        await work
    except LakebedError:
        return False
    return True


async def require_safe(world: World, commit: str) -> None:
    """The commit stands, and the next run does not take it from whoever has built on it."""
    state = await world.gc.state(world.lake.repo)
    condemner = await world.condemned_by(commit)
    assert not (condemner and is_final(state, condemner)), "condemned for ever, with somebody on it"


@pytest.mark.parametrize("fences", [True, False])
@pytest.mark.parametrize("name", BUILDS)
async def test_an_operation_between_two_steps_of_the_collector(name: str, fences: bool) -> None:
    number, outcomes = 0, set()
    reached = True
    while reached:
        async with open_world(fences=fences, staging_segments=SegmentUse.ALWAYS) as world:
            commit = await expiring(world)
            made: list[bool] = []

            async def build(world: World = world, commit: str = commit, made: list[bool] = made) -> None:
                made.append(await succeeds(BUILDS[name](world, commit)))

            of = await world.begin()
            done = before_call(world, number, build)
            listed = await world.commits(of)
            await world.publish(of)
            world.kv.hook = None
            reached = bool(done)
            if made == [True] and name == "merge":
                # Done before the refs were read again, it has the objects in a commit of its own.
                other = await world.lake.engine.parts.branches.get(world.lake.repo, OTHER)
                assert other.value.commit_id in listed.live
            elif made == [True]:
                await require_safe(world, commit)
                assert commit in listed.live
            outcomes |= set(made)
        number += 1
    assert outcomes == {True, False}, "the scenario never reached the interesting part"


@pytest.mark.parametrize("fences", [True, False])
@pytest.mark.parametrize("name", BUILDS)
async def test_the_collector_between_two_steps_of_an_operation(name: str, fences: bool) -> None:
    number, outcomes = 0, set()
    reached = True
    while reached:
        async with open_world(fences=fences, staging_segments=SegmentUse.ALWAYS) as world:
            commit = await expiring(world)
            done = before_call(world, number, world.mark)
            made = await succeeds(BUILDS[name](world, commit))
            world.kv.hook = None
            reached = bool(done)
            if made:
                await require_safe(world, commit)
            if done:
                outcomes.add(made)
        number += 1
    assert False in outcomes, "the scenario never reached the interesting part"
