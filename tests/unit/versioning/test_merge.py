"""Merge, cherry-pick, revert."""

from dataclasses import replace

import pytest

from lakebed.errors import ConflictError, ErrorKind, InvalidInputError
from lakebed.model.diffs import ChangeCounts, MergeStrategy
from lakebed.testing.lake import COMMIT, Lake
from lakebed.versioning.merge import MergeConflictError, MergeRequest

MERGE = MergeRequest(commit=COMMIT)


async def forked(lake: Lake) -> None:
    """`main` and `dev` share a, b, c; dev changes a and adds d, main changes c."""
    await lake.commit("main", a="1", b="1", c="1")
    await lake.catalog.branches.create("lake", "dev", "main")
    await lake.commit("dev", a="2", d="2")
    await lake.commit("main", c="3")


async def test_a_merge_brings_the_other_sides_changes(lake: Lake) -> None:
    await forked(lake)
    merged = await lake.catalog.diffs.merge("lake", "dev", "main", MERGE)

    assert await lake.show("main") == {"a": "2", "b": "1", "c": "3", "d": "2"}
    assert len(merged.commit.parents) == 2
    assert merged.counts == ChangeCounts(added=1, changed=1)
    assert merged.commit.metadata == {".lakefs.merge.strategy": "default"}
    assert await lake.show("dev") == {"a": "2", "b": "1", "c": "1", "d": "2"}


async def test_a_squash_merge_has_one_parent(lake: Lake) -> None:
    await forked(lake)
    merged = await lake.catalog.diffs.merge("lake", "dev", "main", replace(MERGE, squash=True))

    assert len(merged.commit.parents) == 1
    assert await lake.show("main") == {"a": "2", "b": "1", "c": "3", "d": "2"}


@pytest.mark.parametrize(
    ("strategy", "winner"), [(MergeStrategy.SOURCE_WINS, "dev"), (MergeStrategy.DEST_WINS, "main")]
)
async def test_conflicts_are_reported_by_path_or_decided_by_strategy(
    lake: Lake, strategy, winner: str
) -> None:
    await forked(lake)
    await lake.commit("dev", b="dev")
    await lake.commit("main", b="main")

    with pytest.raises(MergeConflictError) as caught:
        await lake.catalog.diffs.merge("lake", "dev", "main", MERGE)
    assert (caught.value.paths, caught.value.total) == (("b",), 1)
    before = await lake.show("main")
    assert before["b"] == "main"

    await lake.catalog.diffs.merge("lake", "dev", "main", replace(MERGE, strategy=strategy))
    assert (await lake.show("main"))["b"] == winner


async def test_refused_merges_pile_up_nothing(lake: Lake) -> None:
    await forked(lake)
    await lake.commit("dev", b="dev")
    await lake.commit("main", b="main")
    for _ in range(3):
        await lake.catalog.objects.delete("lake", "main", ["never-there"])
        with pytest.raises(MergeConflictError):
            await lake.catalog.diffs.merge("lake", "dev", "main", MERGE)

    branch = await lake.catalog.branches.get("lake", "main")
    assert (branch.sealed, dict(branch.pending)) == ((), {})


async def test_a_dirty_branch_takes_no_merge_and_keeps_what_is_staged(lake: Lake) -> None:
    await forked(lake)
    await lake.put("main", staged="1")

    with pytest.raises(InvalidInputError) as caught:
        await lake.catalog.diffs.merge("lake", "dev", "main", MERGE)
    assert caught.value.kind is ErrorKind.DIRTY_BRANCH
    assert (await lake.show("main"))["staged"] == "1"


async def test_a_clean_but_not_empty_branch_takes_a_merge_whole(lake: Lake) -> None:
    await forked(lake)
    await lake.put("main", a="1")  # The same content again: a layer, but no difference.
    await lake.catalog.diffs.merge("lake", "dev", "main", MERGE)

    assert (await lake.show("main"))["a"] == "2", "a layer left behind would undo the merge"
    assert (await lake.show("main@"))["a"] == "2"


async def test_merging_what_is_already_there_is_no_change(lake: Lake) -> None:
    await forked(lake)
    await lake.catalog.diffs.merge("lake", "dev", "main", MERGE)

    with pytest.raises(InvalidInputError) as caught:
        await lake.catalog.diffs.merge("lake", "dev", "main", MERGE)
    assert caught.value.kind is ErrorKind.NO_CHANGES
    allowed = replace(MERGE, commit=replace(COMMIT, allow_empty=True))
    await lake.catalog.diffs.merge("lake", "dev", "main", allowed)


async def test_a_branch_is_not_merged_into_itself(lake: Lake) -> None:
    with pytest.raises(InvalidInputError):
        await lake.catalog.diffs.merge("lake", "main", "main", MERGE)


async def test_the_merge_base_is_the_common_ancestor(lake: Lake) -> None:
    await forked(lake)
    found = await lake.catalog.diffs.merge_base("lake", "dev", "main")
    assert found.base == (await lake.catalog.commits.get("lake", "main~1")).id


async def test_revert_undoes_one_commit_and_keeps_the_rest(lake: Lake) -> None:
    await lake.commit("main", a="1", b="1")
    wrong = await lake.commit("main", a="wrong", c="wrong")
    await lake.commit("main", d="1")
    await lake.catalog.branches.revert("lake", "main", wrong, COMMIT)

    assert await lake.show("main") == {"a": "1", "b": "1", "d": "1"}


async def test_a_revert_that_meets_later_changes_is_a_conflict(lake: Lake) -> None:
    await lake.commit("main", a="1")
    wrong = await lake.commit("main", a="wrong")
    await lake.commit("main", a="later")

    with pytest.raises(MergeConflictError):
        await lake.catalog.branches.revert("lake", "main", wrong, COMMIT)


async def test_a_merge_commit_is_reverted_against_a_named_parent(lake: Lake) -> None:
    await forked(lake)
    merged = (await lake.catalog.diffs.merge("lake", "dev", "main", MERGE)).commit.id

    with pytest.raises(ConflictError) as caught:
        await lake.catalog.branches.revert("lake", "main", merged, COMMIT)
    assert caught.value.kind is ErrorKind.PARENT_NEEDED
    with pytest.raises(InvalidInputError):
        await lake.catalog.branches.revert("lake", "main", merged, COMMIT, parent_number=3)
    await lake.catalog.branches.revert("lake", "main", merged, COMMIT, parent_number=1)
    assert await lake.show("main") == {"a": "1", "b": "1", "c": "3"}


async def test_cherry_pick_repeats_one_commit_and_says_where_it_is_from(lake: Lake) -> None:
    await forked(lake)
    picked = await lake.commit("dev", e="5")
    commit = await lake.catalog.branches.cherry_pick("lake", "main", picked, COMMIT)

    assert await lake.show("main") == {"a": "1", "b": "1", "c": "3", "e": "5"}
    assert commit.metadata == {"cherry-pick-origin": picked, "cherry-pick-committer": "tester"}
    assert len(commit.parents) == 1
