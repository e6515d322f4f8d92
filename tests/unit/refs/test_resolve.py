from dataclasses import replace
from itertools import pairwise

import pytest

from lakebed.errors import ErrorKind, InvalidInputError, LakebedError, NotFoundError
from lakebed.model.commits import Commit
from lakebed.model.ids import BranchName, CommitId, TagName
from lakebed.model.repository import Repository
from lakebed.refs.expressions import View
from lakebed.refs.resolve import RefType
from tests.unit.refs.world import World


async def history(world: World, repo: Repository) -> list[Commit]:
    """root <- one <- two <- merge, where merge's second parent is side, a child of root."""
    root = await world.commit(repo)
    one = await world.commit(repo, root.id)
    two = await world.commit(repo, one.id)
    side = await world.commit(repo, root.id)
    merge = await world.commit(repo, two.id, side.id)
    await world.branches.create(repo, BranchName("main"), merge.id)
    await world.tags.create(repo, TagName("v1.0"), one.id)
    return [root, one, two, side, merge]


async def failure(world: World, repo: Repository, text: str) -> LakebedError:
    with pytest.raises(LakebedError) as caught:
        await world.resolver.resolve(repo, text)
    return caught.value


async def test_a_plain_branch_costs_one_read_and_brings_its_record(world: World, repo: Repository) -> None:
    *_, merge = await history(world, repo)
    world.kv.reads = 0

    found = await world.resolver.resolve(repo, "main")

    assert world.kv.reads == 1
    assert (found.type, found.branch, found.commit_id) == (RefType.BRANCH, "main", merge.id)
    assert found.record == await world.branches.get(repo, BranchName("main"))
    assert found.staged
    assert found.require_commit() == merge.id


async def test_committed_and_staging_views_are_of_branches_only(world: World, repo: Repository) -> None:
    root, *_, merge = await history(world, repo)

    committed = await world.resolver.resolve(repo, "main@")
    assert (committed.staged, committed.view, committed.branch) == (False, View.COMMITTED, "main")
    assert committed.require_commit() == merge.id

    staged = await world.resolver.resolve(repo, "main$")
    assert (staged.staged, staged.view, staged.branch) == (True, View.STAGED, "main")
    with pytest.raises(InvalidInputError) as caught:
        staged.require_commit()
    assert caught.value.kind is ErrorKind.NOT_A_COMMIT
    with pytest.raises(InvalidInputError):
        await world.resolver.resolve_commit(repo, "main$")

    for text in ("v1.0@", "v1.0$", f"{root.id}@", f"{root.id[:20]}$"):
        error = await failure(world, repo, text)
        assert (type(error), error.kind) == (InvalidInputError, ErrorKind.INVALID_REF)


async def test_tags_and_commits_resolve_to_their_commit(world: World, repo: Repository) -> None:
    _, one, *_ = await history(world, repo)
    tagged = await world.resolver.resolve(repo, "v1.0")
    assert (tagged.type, tagged.commit_id, tagged.branch, tagged.staged) == (RefType.TAG, one.id, None, False)
    for text in (one.id, one.id[:20]):
        found = await world.resolver.resolve(repo, text)
        assert (found.type, found.commit_id, found.staged) == (RefType.COMMIT, one.id, False)


@pytest.mark.parametrize(
    ("text", "index"),
    [("main~", 2), ("main~0", 4), ("main~1", 2), ("main~3", 0), ("main^", 2), ("main^0", 4), ("main^2", 3),
     ("main^2~", 0), ("main~~", 1), ("main^^", 1), ("v1.0~1", 0)],
)  # fmt: skip
async def test_steps_lead_to_older_commits(world: World, repo: Repository, text: str, index: int) -> None:
    commits = await history(world, repo)
    found = await world.resolver.resolve(repo, text)
    assert (found.type, found.commit_id) == (RefType.COMMIT, commits[index].id)
    assert (found.branch, found.staged) == (None, False)


async def test_steps_past_the_first_commit_are_not_found(world: World, repo: Repository) -> None:
    await history(world, repo)
    error = await failure(world, repo, "main~4")
    assert (type(error), error.kind) == (NotFoundError, ErrorKind.REF_NOT_FOUND)


async def test_a_parent_that_a_commit_does_not_have_is_out_of_range(world: World, repo: Repository) -> None:
    await history(world, repo)
    for text in ("main^3", "main~3^1"):
        error = await failure(world, repo, text)
        assert (type(error), error.kind) == (InvalidInputError, ErrorKind.PARENT_OUT_OF_RANGE)


@pytest.mark.parametrize(
    "text", ["nothing", "main2", "x" * 2000, "a/b", "0" * 64, "0" * 63, "0" * 65, "v1..0"]
)
async def test_a_name_of_nothing_is_not_found(world: World, repo: Repository, text: str) -> None:
    await history(world, repo)
    error = await failure(world, repo, text)
    assert (type(error), error.kind) == (NotFoundError, ErrorKind.REF_NOT_FOUND)


async def test_no_expression_is_invalid(world: World, repo: Repository) -> None:
    error = await failure(world, repo, "main~x")
    assert (type(error), error.kind) == (InvalidInputError, ErrorKind.INVALID_REF)


async def test_a_prefix_of_two_commits_is_not_found_and_says_why(world: World, repo: Repository) -> None:
    made = sorted([(await world.commit(repo)).id for _ in range(40)])
    one, two = next((a, b) for a, b in pairwise(made) if a[0] == b[0])
    error = await failure(world, repo, one[:1])
    assert (type(error), error.kind) == (NotFoundError, ErrorKind.REF_NOT_FOUND)
    assert "more than one" in str(error)
    assert (await world.resolver.resolve(repo, two[:20])).commit_id == two


async def test_a_branch_wins_over_a_tag_and_a_tag_over_a_prefix(world: World, repo: Repository) -> None:
    commits = await history(world, repo)
    root, one, two = commits[:3]
    prefix = two.id[:6]
    await world.tags.create(repo, TagName(prefix), one.id)
    assert (await world.resolver.resolve(repo, prefix)).commit_id == one.id

    await world.tags.delete(repo, TagName(prefix))
    await world.branches.create(repo, BranchName(prefix), root.id)
    assert (await world.resolver.resolve(repo, prefix)).commit_id == root.id


async def test_a_full_commit_id_wins_over_a_branch_of_that_name(world: World, repo: Repository) -> None:
    commits = await history(world, repo)
    name = BranchName("a" * 64)
    await world.branches.create(repo, name, commits[0].id)
    assert (await world.resolver.resolve(repo, name)).type is RefType.BRANCH

    other = await world.commits.get(repo, commits[1].id)
    await world.commits.add(repo, replace(other, id=CommitId(name)))
    assert (await world.resolver.resolve(repo, name)).type is RefType.COMMIT
