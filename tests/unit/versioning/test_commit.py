"""Commit: what is staged becomes the next tree, exactly once."""

import asyncio
from dataclasses import replace

import pytest

from lakebed.errors import ErrorKind, InvalidInputError, LakebedError
from lakebed.testing.lake import COMMIT, Lake


async def test_a_commit_holds_what_was_staged_and_empties_the_branch(lake: Lake) -> None:
    await lake.put("main", a="1", b="2")
    commit = await lake.catalog.commits.commit("lake", "main", COMMIT)

    branch = await lake.catalog.branches.get("lake", "main")
    assert branch.commit_id == commit.id
    assert (branch.staging_token, branch.sealed, dict(branch.pending)) == (None, (), {})
    assert await lake.show(commit.id) == await lake.show("main") == {"a": "1", "b": "2"}
    assert commit.generation == 2


async def test_nothing_staged_is_no_commit_unless_allowed(lake: Lake) -> None:
    with pytest.raises(InvalidInputError) as caught:
        await lake.catalog.commits.commit("lake", "main", COMMIT)
    assert caught.value.kind is ErrorKind.NO_CHANGES

    empty = await lake.catalog.commits.commit("lake", "main", replace(COMMIT, allow_empty=True))
    assert (await lake.catalog.branches.get("lake", "main")).commit_id == empty.id


async def test_a_tombstone_over_nothing_and_the_same_content_again_are_no_changes(lake: Lake) -> None:
    await lake.commit("main", a="1")
    await lake.catalog.objects.delete("lake", "main", ["never-there"])
    await lake.put("main", a="1")

    with pytest.raises(InvalidInputError) as caught:
        await lake.catalog.commits.commit("lake", "main", COMMIT)
    assert caught.value.kind is ErrorKind.NO_CHANGES
    assert await lake.show("main") == {"a": "1"}


async def test_deletes_and_overwrites_are_committed(lake: Lake) -> None:
    await lake.commit("main", a="1", b="1", c="1")
    await lake.catalog.objects.delete("lake", "main", ["a"])
    await lake.put("main", b="2", d="2")
    head = await lake.commit("main")

    assert await lake.show(head) == {"b": "2", "c": "1", "d": "2"}
    assert await lake.show("main~1") == {"a": "1", "b": "1", "c": "1"}


async def test_concurrent_committers_and_writers_lose_nothing(lake: Lake) -> None:
    written: list[str] = []

    async def write(name: str) -> None:
        for i in range(20):
            path = f"{name}-{i}"
            await lake.put("main", **{path: path})
            written.append(path)

    refusals: set[ErrorKind] = set()

    async def commit() -> int:
        done = 0
        while len(written) < 160:
            try:
                await lake.catalog.commits.commit("lake", "main", COMMIT)
            except InvalidInputError as error:
                refusals.add(error.kind)
            else:
                done += 1
            await asyncio.sleep(0)
        return done

    *_, first, second = await asyncio.gather(*(write(f"w{n}") for n in range(8)), commit(), commit())
    assert first + second > 0
    assert refusals <= {ErrorKind.NO_CHANGES}
    assert await lake.show("main") == {path: path for path in written}
    log = [c async for c in _history(lake)]
    assert len(log) == len(set(log)) == first + second + 1


async def test_a_failed_commit_leaves_no_layer_and_no_pending_entry(lake: Lake) -> None:
    for _ in range(5):
        await lake.catalog.objects.delete("lake", "main", ["never-there"])
        with pytest.raises(LakebedError):
            await lake.catalog.commits.commit("lake", "main", COMMIT)

    branch = await lake.catalog.branches.get("lake", "main")
    assert (branch.sealed, dict(branch.pending)) == ((), {})


async def test_a_ready_tree_is_committed_to_a_clean_branch_only(lake: Lake) -> None:
    first = await lake.commit("main", a="1")
    tree = (await lake.catalog.commits.get("lake", first)).tree
    await lake.commit("main", a="2")
    await lake.put("main", b="1")

    with pytest.raises(InvalidInputError) as caught:
        await lake.catalog.commits.commit("lake", "main", COMMIT, source_metarange=tree)
    assert caught.value.kind is ErrorKind.DIRTY_BRANCH
    await lake.catalog.branches.reset("lake", "main")
    await lake.catalog.commits.commit("lake", "main", COMMIT, source_metarange=tree)
    assert await lake.show("main") == {"a": "1"}


async def test_a_slow_reader_sees_its_own_moment_across_a_commit(lake: Lake) -> None:
    await lake.put("main", **{f"k{i}": "1" for i in range(10)})
    record = await lake.catalog.branches.get("lake", "main")
    source = await lake.engine.view.source(lake.repo, record)
    blocks = lake.engine.view.scan(lake.repo, source, first_page=3)
    first = await anext(blocks)
    await lake.commit("main", k5="2", k9="2")
    rest = [block async for block in blocks]

    keys = [k for b in [first, *rest] for k in b.column("key").to_pylist()]
    assert keys == [f"k{i}" for i in range(10)]


async def _history(lake: Lake):
    commit = await lake.catalog.commits.get("lake", "main")
    while True:
        yield commit.id
        if not commit.parents:
            return
        commit = await lake.catalog.commits.get("lake", commit.parents[0])
