"""A branch with a compacted tree: it shows the same, and a commit of it alone writes one record."""

from dataclasses import replace

import pytest

from lakebed.committed.trees import AppliedTree
from lakebed.env.clock import after
from lakebed.errors import ErrorKind, InvalidInputError
from lakebed.limits import GRACE_SECONDS
from lakebed.model.branch import Branch
from lakebed.model.ids import BranchName, Nonce
from lakebed.staging.record import seal
from lakebed.testing.lake import COMMIT, Lake
from lakebed.versioning.merge import MergeRequest

MAIN = BranchName("main")
MERGE = MergeRequest(commit=COMMIT)


async def compact(lake: Lake) -> AppliedTree:
    """Put everything staged into a compacted tree over the commit's, as an install does."""
    parts = lake.engine.parts
    found = await parts.branches.get(lake.repo, MAIN)
    sealed = seal(found.value)
    base = await parts.base_tree(lake.repo, sealed)
    trees = await parts.trees_of(lake.repo)
    made = await trees.apply(base, parts.staging.reader.scan(lake.repo, sealed), nonce=Nonce("job"))
    await parts.branches.swap(
        lake.repo,
        found,
        replace(sealed, sealed=(), compacted=made.id, compacted_counts=made.counts),
    )
    return made


async def branch(lake: Lake) -> Branch:
    return (await lake.engine.parts.branches.get(lake.repo, MAIN)).value


async def test_a_commit_of_a_compacted_tree_is_that_tree(lake: Lake) -> None:
    await lake.commit("main", a="1", b="1")
    await lake.put("main", a="2", c="1")
    await lake.catalog.objects.delete("lake", "main", ["b"])
    made = await compact(lake)

    commit = await lake.catalog.commits.commit("lake", "main", COMMIT)

    assert commit.tree == made.id
    assert await lake.show("main") == await lake.show(commit.id) == {"a": "2", "c": "1"}
    after = await branch(lake)
    assert (after.compacted, after.compacted_counts) == (None, None)
    assert [r.tree for r in after.retired_trees] == [made.id]


async def test_what_is_staged_above_a_compacted_tree_is_committed_with_it(lake: Lake) -> None:
    await lake.commit("main", a="1")
    await lake.put("main", b="1")
    await compact(lake)
    await lake.put("main", c="1")

    await lake.catalog.commits.commit("lake", "main", COMMIT)

    assert await lake.show("main") == {"a": "1", "b": "1", "c": "1"}


async def test_a_compacted_tree_that_changes_nothing_for_a_user_is_no_commit(lake: Lake) -> None:
    await lake.commit("main", a="1")
    await lake.put("main", a="1")
    made = await compact(lake)
    assert made.counts.total == 0

    with pytest.raises(InvalidInputError) as caught:
        await lake.catalog.commits.commit("lake", "main", COMMIT)

    assert caught.value.kind is ErrorKind.NO_CHANGES
    assert (await branch(lake)).compacted is None


async def test_a_merge_into_a_branch_with_a_compacted_difference_is_refused_as_dirty(lake: Lake) -> None:
    await lake.commit("main", a="1")
    await lake.catalog.branches.create("lake", "dev", "main")
    await lake.commit("dev", b="1")
    await lake.put("main", c="1")
    await compact(lake)

    with pytest.raises(InvalidInputError) as caught:
        await lake.catalog.diffs.merge("lake", "dev", "main", MERGE)
    assert caught.value.kind is ErrorKind.DIRTY_BRANCH
    assert await lake.show("main") == {"a": "1", "c": "1"}


async def test_a_reset_forgets_the_compacted_tree(lake: Lake) -> None:
    await lake.commit("main", a="1")
    await lake.put("main", b="1")
    made = await compact(lake)

    await lake.catalog.branches.reset("lake", "main")

    assert await lake.show("main") == {"a": "1"}
    assert [r.tree for r in (await branch(lake)).retired_trees] == [made.id]


async def test_a_retired_tree_is_listed_for_a_grace_period_and_no_longer(lake: Lake) -> None:
    await lake.put("main", a="1")
    await compact(lake)
    await lake.catalog.commits.commit("lake", "main", COMMIT)
    (retired,) = (await branch(lake)).retired_trees

    await lake.cleaner.clean_once(retired.at)
    assert (await branch(lake)).retired_trees == (retired,)
    await lake.cleaner.clean_once(after(retired.at, GRACE_SECONDS + 1))
    assert (await branch(lake)).retired_trees == ()
