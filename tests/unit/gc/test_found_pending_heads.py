"""Found in review: a commit that is about to become HEAD was let go under its operation when nothing old is kept."""

import pytest

from lakebed.gc.state import is_final
from lakebed.model.ids import BranchName
from lakebed.staging.appending import SegmentUse
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
