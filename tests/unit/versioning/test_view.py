"""Reads: stat, listings, diffs."""

from dataclasses import replace

import pytest

from lakebed.catalog.diffs import DiffQuery
from lakebed.errors import ErrorKind, InvalidInputError, NotFoundError
from lakebed.refs.log import LogQuery
from lakebed.testing.lake import COMMIT, Lake
from lakebed.versioning.commit import CommitRequest
from lakebed.versioning.merge import MergeRequest
from lakebed.versioning.paging import BlockPage


def listed(page: BlockPage) -> list[str]:
    return sorted([*page.rows.column("key").to_pylist(), *page.prefixes])


def differences(page: BlockPage) -> dict[str, str]:
    rows = dict(zip(page.rows.column("key").to_pylist(), page.rows.column("type").to_pylist(), strict=True))
    return {**rows, **dict.fromkeys(page.prefixes, "prefix_changed")}


async def test_stat_of_something_missing_says_so(lake: Lake) -> None:
    await lake.commit("main", a="1")
    await lake.catalog.objects.delete("lake", "main", ["a"])

    with pytest.raises(NotFoundError) as caught:
        await lake.catalog.objects.stat("lake", "main", "a")
    assert caught.value.kind is ErrorKind.OBJECT_NOT_FOUND
    assert (await lake.catalog.objects.stat("lake", "main@", "a")).size_bytes == 1


async def folders(lake: Lake, *, commit: bool) -> None:
    await lake.put(
        "main", **dict.fromkeys(("a", "b/1", "b/2", "b/c/3", "d", "e/1", "é/1", "z//2", "z/1"), "1")
    )
    if commit:
        await lake.commit("main")


@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("amount", [1, 2, 3, 100])
async def test_a_delimiter_folds_and_pages_go_on_after_the_last_name(
    lake: Lake, commit: bool, amount: int
) -> None:
    await folders(lake, commit=commit)
    names, after = [], ""
    for _ in range(20):
        page = await lake.catalog.objects.list("lake", "main", delimiter="/", after=after, amount=amount)
        assert len(listed(page)) <= amount
        names += sorted(listed(page), key=str.encode)
        if not page.has_more:
            break
        after = page.last

    assert names == ["a", "b/", "d", "e/", "z/", "é/"]


@pytest.mark.parametrize("commit", [True, False])
async def test_a_prefix_narrows_and_the_delimiter_counts_behind_it(lake: Lake, commit: bool) -> None:
    await folders(lake, commit=commit)

    assert listed(await lake.catalog.objects.list("lake", "main", prefix="b/", delimiter="/")) == [
        "b/1",
        "b/2",
        "b/c/",
    ]
    assert listed(await lake.catalog.objects.list("lake", "main", prefix="b/")) == ["b/1", "b/2", "b/c/3"]
    assert listed(await lake.catalog.objects.list("lake", "main", prefix="z/", delimiter="/")) == [
        "z//",
        "z/1",
    ]
    assert listed(await lake.catalog.objects.list("lake", "main", prefix="nope")) == []


async def test_a_listing_merges_staged_and_committed(lake: Lake) -> None:
    await lake.commit("main", a="1", c="1", e="1")
    await lake.put("main", b="2", c="2")
    await lake.catalog.objects.delete("lake", "main", ["e"])

    assert listed(await lake.catalog.objects.list("lake", "main")) == ["a", "b", "c"]
    assert listed(await lake.catalog.objects.list("lake", "main@")) == ["a", "c", "e"]
    page = await lake.catalog.objects.list("lake", "main", amount=2)
    assert (listed(page), page.has_more) == (["a", "b"], True)


async def test_a_folder_whose_objects_are_all_deleted_is_not_listed(lake: Lake) -> None:
    await lake.commit("main", **{"a/1": "1", "a/2": "1", "b": "1"})
    await lake.catalog.objects.delete("lake", "main", ["a/1", "a/2"])

    assert listed(await lake.catalog.objects.list("lake", "main", delimiter="/")) == ["b"]


async def test_uncommitted_differences_are_what_a_user_would_see(lake: Lake) -> None:
    await lake.commit("main", a="1", b="1", **{"d/1": "1"})
    await lake.put("main", a="2", c="2", b="1", **{"d/2": "2"})
    await lake.catalog.objects.delete("lake", "main", ["d/1", "never"])

    page = await lake.catalog.diffs.uncommitted("lake", "main", DiffQuery())
    assert differences(page) == {"a": "changed", "c": "added", "d/1": "removed", "d/2": "added"}
    folded = await lake.catalog.diffs.uncommitted("lake", "main", DiffQuery(delimiter="/"))
    assert differences(folded) == {"a": "changed", "c": "added", "d/": "prefix_changed"}
    staged = await lake.catalog.diffs.diff("lake", "main", "main$", DiffQuery(), two_dot=True)
    assert differences(staged) == differences(page)


async def test_two_dots_compare_directly_three_dots_with_the_ancestor(lake: Lake) -> None:
    await lake.commit("main", a="1", b="1", c="1")
    await lake.catalog.branches.create("lake", "dev", "main")
    await lake.commit("dev", a="dev", b="dev")
    await lake.commit("main", a="main", c="main")
    await lake.catalog.objects.delete("lake", "main", ["b"])
    await lake.commit("main")

    two = await lake.catalog.diffs.diff("lake", "main", "dev", DiffQuery(), two_dot=True)
    assert differences(two) == {"a": "changed", "b": "added", "c": "changed"}
    three = await lake.catalog.diffs.diff("lake", "main", "dev", DiffQuery())
    assert differences(three) == {"a": "conflict", "b": "conflict"}


async def test_a_staged_view_is_not_a_commit(lake: Lake) -> None:
    with pytest.raises(InvalidInputError) as caught:
        await lake.catalog.commits.get("lake", "main$")
    assert caught.value.kind is ErrorKind.NOT_A_COMMIT


async def test_blame_names_the_last_commit_that_changed_a_path(lake: Lake) -> None:
    first = await lake.commit("main", a="1", b="1")
    second = await lake.commit("main", b="2")
    await lake.commit("main", c="3")

    for path, commit in (("a", first), ("b", second)):
        found = await lake.catalog.commits.blame("lake", "main", path)
        assert found is not None
        assert found.id == commit
    assert await lake.catalog.commits.blame("lake", "main", "nope") is None


async def test_a_log_can_be_narrowed_to_paths(lake: Lake) -> None:
    first = await lake.commit("main", **{"a/1": "1", "b": "1"})
    await lake.commit("main", b="2")
    third = await lake.commit("main", **{"a/2": "1"})

    log = await lake.catalog.commits.log("lake", "main", LogQuery(), prefixes=["a/"])
    assert [c.id for c in log.results] == [third, first]
    log = await lake.catalog.commits.log("lake", "main", LogQuery(), objects=["a/1"])
    assert [c.id for c in log.results] == [first]
    assert len((await lake.catalog.commits.log("lake", "main", LogQuery())).results) == 4


async def test_a_shallow_copy_shares_the_address_and_is_noted_before(lake: Lake) -> None:
    await lake.put("main", a="1")
    copied = await lake.catalog.objects.copy("lake", "main", "b", source_path="a", shallow=True)
    original = await lake.catalog.objects.stat("lake", "main", "a")

    assert copied.address == original.address
    pages = [p async for p in lake.kv.scan(lake.repo.partition, start=b"copies/", end=b"copies0")]
    assert [k for p in pages for k in p.keys if original.address.encode() in k]
    full = await lake.catalog.objects.copy("lake", "main", "c", source_path="a")
    assert full.address != original.address
    assert await lake.show("main") == {"a": "1", "b": "1", "c": "1"}


async def test_user_metadata_is_replaced(lake: Lake) -> None:
    await lake.commit("main", a="1")
    await lake.catalog.objects.set_metadata("lake", "main", "a", {"k": "v"})

    assert (await lake.catalog.objects.stat("lake", "main", "a")).metadata == {"k": "v"}
    await lake.catalog.commits.commit("lake", "main", COMMIT)
    with pytest.raises(InvalidInputError) as caught:
        await lake.catalog.objects.set_metadata("lake", "main", "a", {"k": "v" * 20_000})
    assert caught.value.kind is ErrorKind.TOO_LARGE


async def test_what_was_done_within_one_second_is_logged_in_its_order(lake: Lake) -> None:
    same_second = replace(COMMIT, date=7)
    first = await _commit(lake, "main", same_second, a="1")
    await lake.catalog.branches.create("lake", "dev", "main")
    for number in range(8):
        last = await _commit(lake, "dev", same_second, b=str(number))
    merged = await lake.catalog.diffs.merge("lake", "dev", "main", MergeRequest(commit=same_second))

    log = [c.id for c in (await lake.catalog.commits.log("lake", "main", LogQuery())).results]
    assert log[:2] == [merged.commit.id, last]
    assert log[-2] == first


async def _commit(lake: Lake, branch: str, request: CommitRequest, **objects: str) -> str:
    await lake.put(branch, **objects)
    return (await lake.catalog.commits.commit("lake", branch, request)).id
