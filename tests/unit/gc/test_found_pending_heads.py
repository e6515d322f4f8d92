"""Found in review: a commit that is about to become HEAD was let go under its operation when nothing old is kept."""

from dataclasses import replace
from typing import Any

import pytest

from lakebed.model.ids import BranchName
from lakebed.refs.condemned import is_final
from lakebed.refs.keys import COMMITS_PREFIX, branch_key
from lakebed.staging.appending import SegmentUse
from lakebed.testing.lake import COMMIT
from tests.unit.gc.test_races import before_call, succeeds
from tests.unit.gc.world import DAY, World, open_world


async def commit(world: World) -> None:
    await world.lake.commit("main", new="1")


@pytest.mark.parametrize("fences", [True, False])
async def test_a_commit_on_its_way_to_be_a_head_is_never_let_go(fences: bool) -> None:
    number, reached, made = 0, True, 0
    while reached:
        async with open_world(fences=fences, staging_segments=SegmentUse.ALWAYS) as world:
            await world.rules(0)
            await world.lake.commit("main", first="1")
            world.clock.advance(DAY)
            done = before_call(world, number, world.mark)
            made += await succeeds(commit(world))
            world.kv.hook = None
            reached = bool(done)
            head = (await world.lake.engine.parts.branches.get(world.lake.repo, BranchName("main"))).value
            condemner = await world.condemned_by(head.commit_id)
            state = await world.gc.state(world.lake.repo)
            assert not (condemner and is_final(state, condemner)), f"HEAD is condemned, step {number}"
            await world.lake.commit("main", another="1")
        number += 1
    assert made > 5, "the scenario never reached the interesting part"


async def test_a_try_that_was_given_up_and_let_go_is_not_made_a_head_by_the_next(world: World) -> None:
    await world.rules(0)
    await world.lake.commit("main", first="1")
    await world.lake.put("main", new="1")
    repo, branches, name = world.lake.repo, world.lake.engine.parts.branches, BranchName("main")
    written = False

    async def give_up_and_collect(call: str, what: Any) -> None:
        nonlocal written
        if call != "swap":
            return
        if what.startswith(COMMITS_PREFIX):
            written = True
        elif written and what == branch_key(name):
            # Nobody heard of it for long: somebody else takes its entry away, and the collector its commit.
            world.kv.hook = None
            await branches.update(
                repo, name, lambda b, _now: replace(b, pending={}), landed=lambda b: not b.pending
            )
            await world.mark()

    world.kv.hook = give_up_and_collect
    request = replace(COMMIT, date=1)
    committer = world.lake.engine.committer
    head = await committer.commit(repo, name, request)
    assert world.kv.hook is None, "the scenario was reached"
    assert not await world.condemned_by(head.id)
    await world.lake.commit("main", another="1")
