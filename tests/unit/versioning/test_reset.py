"""Reset, hard reset, stash and pop."""

import pytest

from lakebed.errors import ConflictError, ErrorKind, InvalidInputError, NotFoundError, UnavailableError
from lakebed.testing.lake import COMMIT, Lake


async def staged(lake: Lake) -> None:
    """Committed a/1, b/1; staged a/1 changed, b/1 deleted, a/2 added."""
    await lake.commit("main", **{"a/1": "old", "b/1": "old"})
    await lake.put("main", **{"a/1": "new", "a/2": "new"})
    await lake.catalog.objects.delete("lake", "main", ["b/1"])


async def test_resetting_a_branch_forgets_everything_uncommitted(lake: Lake) -> None:
    await staged(lake)
    await lake.catalog.branches.reset("lake", "main")

    assert await lake.show("main") == {"a/1": "old", "b/1": "old"}
    await lake.put("main", c="1")
    assert await lake.show("main") == {"a/1": "old", "b/1": "old", "c": "1"}


async def test_resetting_a_prefix_leaves_the_rest_staged(lake: Lake) -> None:
    await staged(lake)
    await lake.catalog.branches.reset_prefix("lake", "main", "a/")
    assert await lake.show("main") == {"a/1": "old"}

    await lake.catalog.branches.reset_prefix("lake", "main", "b/")
    assert await lake.show("main") == {"a/1": "old", "b/1": "old"}
    with pytest.raises(InvalidInputError) as caught:
        await lake.catalog.commits.commit("lake", "main", COMMIT)
    assert caught.value.kind is ErrorKind.NO_CHANGES


async def test_resetting_a_path_leaves_its_neighbours_staged(lake: Lake) -> None:
    await staged(lake)
    await lake.put("main", **{"a/1x": "new"})
    await lake.catalog.branches.reset_path("lake", "main", "a/1")

    assert await lake.show("main") == {"a/1": "old", "a/1x": "new", "a/2": "new"}


async def test_a_hard_reset_moves_head_back_and_needs_a_clean_branch(lake: Lake) -> None:
    first = await lake.commit("main", a="1")
    await lake.commit("main", a="2")
    await lake.put("main", b="1")

    with pytest.raises(InvalidInputError) as caught:
        await lake.catalog.branches.hard_reset("lake", "main", first)
    assert caught.value.kind is ErrorKind.DIRTY_BRANCH
    await lake.catalog.branches.reset("lake", "main")
    await lake.catalog.branches.hard_reset("lake", "main", "main~1")
    assert (await lake.catalog.branches.get("lake", "main")).commit_id == first
    assert await lake.show("main") == {"a": "1"}


async def test_stash_and_pop_round_trip(lake: Lake) -> None:
    await staged(lake)
    before = await lake.show("main")
    stash = await lake.catalog.stashes.create("lake", "main", message="later")

    assert await lake.show("main") == {"a/1": "old", "b/1": "old"}
    assert [(s.id, s.message) for s in await lake.catalog.stashes.list("lake")] == [(stash.id, "later")]
    await lake.catalog.stashes.pop("lake", stash.id)
    assert await lake.show("main") == before
    assert await lake.catalog.stashes.list("lake") == []


async def test_a_stash_is_popped_over_newer_changes_or_another_branch(lake: Lake) -> None:
    await staged(lake)
    stash = await lake.catalog.stashes.create("lake", "main")
    await lake.catalog.branches.create("lake", "dev", "main")
    await lake.put("dev", **{"a/1": "other", "c": "kept"})
    await lake.catalog.stashes.pop("lake", stash.id, into="dev")

    assert await lake.show("dev") == {"a/1": "new", "a/2": "new", "c": "kept"}
    head = await lake.commit("dev")
    assert await lake.show(head) == {"a/1": "new", "a/2": "new", "c": "kept"}


async def test_a_stash_is_popped_once(lake: Lake) -> None:
    await staged(lake)
    await lake.catalog.branches.create("lake", "dev", "main")
    stash = await lake.catalog.stashes.create("lake", "main")
    await lake.catalog.stashes.pop("lake", stash.id)
    await lake.catalog.stashes.pop("lake", stash.id)  # A repeated request: the same answer, no second layer.

    assert len((await lake.catalog.branches.get("lake", "main")).sealed) == 1
    with pytest.raises(NotFoundError):
        await lake.catalog.stashes.pop("lake", stash.id, into="dev")
    with pytest.raises(NotFoundError):
        await lake.catalog.stashes.pop("lake", "nope")


async def test_there_must_be_something_to_stash(lake: Lake) -> None:
    with pytest.raises(InvalidInputError) as caught:
        await lake.catalog.stashes.create("lake", "main")
    assert caught.value.kind is ErrorKind.NO_CHANGES
    assert await lake.catalog.stashes.list("lake") == []


async def test_a_reset_that_loses_its_branch_half_way_does_not_say_that_nothing_happened(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    await lake.catalog.branches.create("lake", "dev", "main")
    await lake.put("dev", a="1", b="1")
    staging = lake.engine.parts.staging
    fill = staging.fill

    async def fill_and_lose(repo, sealed, changes):
        await fill(repo, sealed, changes)
        await lake.catalog.branches.delete("lake", "dev")
        raise ConflictError(ErrorKind.FENCE_LOST, "moved")

    monkeypatch.setattr(staging, "fill", fill_and_lose)

    with pytest.raises(UnavailableError) as caught:
        await lake.catalog.branches.reset_prefix("lake", "dev", "")
    assert caught.value.kind is ErrorKind.OUTCOME_UNKNOWN
    with pytest.raises(NotFoundError):
        await lake.catalog.branches.reset_prefix("lake", "dev", "")
