import pytest

from lakebed.errors import ErrorKind, NotFoundError
from lakebed.model.commits import Commit
from lakebed.model.ids import CommitId
from lakebed.model.repository import Repository
from lakebed.refs.merge_base import find_merge_base
from tests.unit.refs.world import World


async def base(world: World, repo: Repository, left: Commit, right: Commit) -> CommitId:
    found = (await find_merge_base(world.commits, repo, left.id, right.id)).id
    assert (await find_merge_base(world.commits, repo, right.id, left.id)).id == found
    return found


async def test_the_base_of_two_branches_is_where_they_parted(world: World, repo: Repository) -> None:
    root = await world.commit(repo)
    fork = await world.commit(repo, root.id)
    left = await world.commit(repo, fork.id)
    right = await world.commit(repo, (await world.commit(repo, fork.id)).id)
    assert await base(world, repo, left, right) == fork.id


async def test_an_ancestor_is_its_own_base(world: World, repo: Repository) -> None:
    root = await world.commit(repo)
    child = await world.commit(repo, root.id)
    assert await base(world, repo, root, child) == root.id
    assert await base(world, repo, child, child) == child.id


async def test_a_merge_moves_the_base_up(world: World, repo: Repository) -> None:
    root = await world.commit(repo)
    left = await world.commit(repo, root.id)
    right = await world.commit(repo, root.id)
    merge = await world.commit(repo, left.id, right.id)
    later = await world.commit(repo, right.id)
    assert await base(world, repo, merge, later) == right.id


async def test_a_long_way_round_does_not_hide_the_best_base(world: World, repo: Repository) -> None:
    root = await world.commit(repo)
    tall = root
    for _ in range(5):
        tall = await world.commit(repo, tall.id)
    near = await world.commit(repo, root.id)
    left = await world.commit(repo, near.id, tall.id)
    right = await world.commit(repo, near.id)
    assert await base(world, repo, left, right) == near.id


async def test_of_two_crossing_bases_the_greater_id_is_taken_by_everyone(
    world: World, repo: Repository
) -> None:
    root = await world.commit(repo)
    one = await world.commit(repo, root.id)
    two = await world.commit(repo, root.id)
    left = await world.commit(repo, one.id, two.id)
    right = await world.commit(repo, two.id, one.id)
    assert await base(world, repo, left, right) == max(one.id, two.id)


async def test_histories_without_a_common_commit_have_no_base(world: World, repo: Repository) -> None:
    with pytest.raises(NotFoundError) as caught:
        await base(world, repo, await world.commit(repo), await world.commit(repo))
    assert caught.value.kind is ErrorKind.MERGE_BASE_NOT_FOUND
