"""Whoever builds on a commit at the moment it expires is seen or refused: tried before every single step.

First the operation runs whole between two steps of the collector, then the collector between two steps of the
operation. On a store without fences the refs are tentative for a while.
"""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from lakebed.catalog.commit_records import CommitRecord
from lakebed.errors import ErrorKind, InvalidInputError, LakebedError, NotFoundError
from lakebed.model.ids import BranchName, CommitId
from lakebed.refs.condemned import is_final
from lakebed.refs.keys import commit_key
from lakebed.staging.appending import SegmentUse
from lakebed.testing.lake import COMMIT
from lakebed.versioning.merge import MergeRequest
from tests.unit.gc.world import DAY, Listed, World, open_world

Build = Callable[[World, str], Awaitable[object]]

OTHER = BranchName("other")
RECORD = "ab" * 32


async def tag(world: World, commit: str) -> None:
    await world.lake.catalog.tags.create("lake", "late", commit)


async def branch(world: World, commit: str) -> None:
    await world.lake.catalog.branches.create("lake", "late", commit)


async def hard_reset(world: World, commit: str) -> None:
    await world.lake.engine.resetter.hard_reset(world.lake.repo, OTHER, CommitId(commit))


async def merge(world: World, commit: str) -> None:
    request = MergeRequest(commit=COMMIT)
    await world.lake.engine.merger.merge(world.lake.repo, CommitId(commit), OTHER, request)


async def ready_tree(world: World, commit: str) -> None:
    tree = (await world.lake.catalog.commits.get("lake", commit)).tree
    await world.lake.catalog.commits.commit("lake", "other", COMMIT, source_metarange=tree)


async def record(world: World, commit: str) -> None:
    tree = (await world.lake.catalog.commits.get("lake", commit)).tree
    made = CommitRecord(
        id=RECORD,
        committer="tester",
        message="moved here",
        metarange=tree,
        date=1_700_000_000,
        parents=(),
        generation=1,
    )
    await world.lake.catalog.commit_records.create("lake", made)


BUILDS: dict[str, Build] = {
    "tag": tag,
    "branch": branch,
    "hard reset": hard_reset,
    "merge": merge,
    "ready tree": ready_tree,
    "record": record,
}
# Each that can succeed in both worlds. A record needs fences.
CASES = [(name, fences) for name in BUILDS for fences in (True, False) if fences or name != "record"]


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


async def require_kept(world: World, name: str, commit: str, listed: Listed) -> None:
    """Check that a mark has kept what `BUILDS[name]`, done before the mark read the refs again, made of a commit."""
    if name in {"merge", "ready tree"}:
        # The branch has the objects in a commit of its own.
        other = await world.lake.engine.parts.branches.get(world.lake.repo, OTHER)
        assert other.value.commit_id in listed.live & listed.reachable
    elif name == "record":
        # A record that no ref is on expires by the same rules, and then no ref comes to be on it.
        assert RECORD in listed.live or await world.condemned_by(RECORD)
    else:
        await require_safe(world, commit)
        assert commit in listed.live


@pytest.mark.parametrize(("name", "fences"), CASES)
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
            if made == [True]:
                await require_kept(world, name, commit, listed)
            outcomes |= set(made)
        number += 1
    assert outcomes == {True, False}, "the scenario never reached the interesting part"


@pytest.mark.parametrize(("name", "fences"), CASES)
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


@pytest.mark.parametrize("name", BUILDS)
async def test_nothing_is_built_on_what_has_expired_and_no_mark_is_lost_to_the_attempt(name: str) -> None:
    async with open_world() as world:
        commit = await expiring(world)
        await world.mark()
        state = await world.gc.state(world.lake.repo)

        with pytest.raises(NotFoundError) as caught:
            await BUILDS[name](world, commit)

        assert caught.value.kind is ErrorKind.COMMIT_NOT_FOUND
        assert await world.gc.state(world.lake.repo) == state
        assert not await world.kv.get(world.lake.repo.partition, commit_key(CommitId(RECORD)))


@pytest.mark.parametrize("build", [ready_tree, record])
async def test_the_tree_of_a_commit_is_used_again_without_a_word_to_the_collector(build: Build) -> None:
    async with open_world() as world:
        commit = await world.lake.commit("main", a="1")
        await world.lake.catalog.branches.create("lake", "other", "main")
        await world.lake.commit("other", b="1")
        await world.mark()
        await world.begin()
        state = await world.gc.state(world.lake.repo)

        await build(world, commit)

        assert await world.gc.state(world.lake.repo) == state


async def test_without_fences_no_record_is_written_beside_a_tree() -> None:
    async with open_world(fences=False, staging_segments=SegmentUse.ALWAYS) as world:
        commit = await world.lake.commit("main", a="1")

        with pytest.raises(InvalidInputError) as caught:
            await record(world, commit)

        assert caught.value.kind is ErrorKind.UNSUPPORTED
