"""What the engine does for a user, the same on every pair of stores."""

from dataclasses import replace

import pytest

from lakebed.catalog.diffs import DiffQuery
from lakebed.errors import ErrorKind, InvalidInputError, NotFoundError
from lakebed.refs.log import LogQuery
from lakebed.staging.conditions import IfAbsent
from lakebed.testing.lake import COMMIT, Lake
from lakebed.testing.site import Site
from lakebed.versioning.merge import MergeConflictError, MergeRequest

MERGE = MergeRequest(commit=COMMIT)
# Longer than LMDB's own keys, not ASCII, and in an order that is not the order of folders.
ODD_PATHS = {"a-b": "1", "a/b": "2", "a.b": "3", "ü/" + "x" * 1000: "4", "z z/%20": "5", "\U0001f30a": "6"}


async def diff(lake: Lake, left: str, right: str) -> dict[str, str]:
    page = await lake.catalog.diffs.diff("lake", left, right, DiffQuery(amount=1000), two_dot=True)
    return dict(zip(page.rows.column("key").to_pylist(), page.rows.column("type").to_pylist(), strict=True))


async def test_what_is_written_is_read_by_another_server_at_once(lake: Lake, site: Site) -> None:
    await lake.put("main", **ODD_PATHS)

    async with site.lake() as other:
        assert await other.show("main") == ODD_PATHS
        assert list(await other.show("main")) == sorted(ODD_PATHS, key=str.encode)
        head = await other.commit("main")
    assert await lake.show("main") == await lake.show(head) == ODD_PATHS


async def test_a_large_object_is_streamed_in_and_out(lake: Lake) -> None:
    chunk = bytes(range(256)) * 4096

    async def chunks():
        for _ in range(10):
            yield chunk

    entry = await lake.catalog.objects.upload("lake", "main", "large", chunks())
    assert entry.size_bytes == 10 * len(chunk)
    await lake.commit("main")

    _, read = await lake.catalog.objects.read("lake", "main", "large")
    assert b"".join([part async for part in read]) == chunk * 10


async def test_a_branch_is_changed_compared_merged_and_tagged(lake: Lake) -> None:
    await lake.commit("main", a="1", b="1", c="1")
    await lake.catalog.branches.create("lake", "dev", "main")
    await lake.put("dev", a="2", d="2")
    await lake.catalog.objects.delete("lake", "dev", ["b"])
    assert await diff(lake, "main", "dev$") == {"a": "changed", "b": "removed", "d": "added"}
    await lake.commit("dev")
    await lake.commit("main", e="3")

    merged = await lake.catalog.diffs.merge("lake", "dev", "main", MERGE)
    assert await lake.show("main") == {"a": "2", "c": "1", "d": "2", "e": "3"}
    assert await diff(lake, "main~1", "main") == {"a": "changed", "b": "removed", "d": "added"}
    log = (await lake.catalog.commits.log("lake", "main", LogQuery())).results
    assert log[0].id == merged.commit.id
    assert len(log) == 5
    await lake.catalog.tags.create("lake", "v1", "main")
    await lake.commit("main", a="4")
    assert (await lake.show("v1"))["a"] == "2"


async def test_conflicts_stop_a_merge_and_change_nothing(lake: Lake) -> None:
    await lake.commit("main", a="1")
    await lake.catalog.branches.create("lake", "dev", "main")
    await lake.commit("dev", a="dev")
    head = await lake.commit("main", a="main")

    with pytest.raises(MergeConflictError) as caught:
        await lake.catalog.diffs.merge("lake", "dev", "main", MERGE)
    assert caught.value.paths == ("a",)
    assert (await lake.catalog.commits.get("lake", "main")).id == head
    assert await lake.show("main") == {"a": "main"}


async def test_revert_and_cherry_pick_make_new_commits(lake: Lake) -> None:
    await lake.commit("main", a="1")
    wrong = await lake.commit("main", a="wrong", b="wrong")
    await lake.catalog.branches.create("lake", "dev", "main~1")

    await lake.catalog.branches.revert("lake", "main", wrong, COMMIT)
    await lake.catalog.branches.cherry_pick("lake", "dev", wrong, COMMIT)
    assert await lake.show("main") == {"a": "1"}
    assert await lake.show("dev") == {"a": "wrong", "b": "wrong"}


async def test_uncommitted_changes_are_stashed_reset_and_popped(lake: Lake) -> None:
    await lake.commit("main", a="1", **{"b/1": "1"})
    await lake.put("main", a="2", **{"b/2": "2"})
    await lake.catalog.objects.delete("lake", "main", ["b/1"])
    stash = await lake.catalog.stashes.create("lake", "main")
    assert await lake.show("main") == {"a": "1", "b/1": "1"}

    await lake.catalog.stashes.pop("lake", stash.id)
    assert await lake.show("main") == {"a": "2", "b/2": "2"}
    await lake.catalog.branches.reset_prefix("lake", "main", "b/")
    assert await lake.show("main") == {"a": "2", "b/1": "1"}
    await lake.catalog.branches.reset("lake", "main")
    assert await lake.show("main") == {"a": "1", "b/1": "1"}


async def test_listings_page_and_fold_over_staged_and_committed(lake: Lake) -> None:
    await lake.commit("main", **{f"d{i}/{j}": "1" for i in range(3) for j in range(4)})
    await lake.put("main", top="2", **{"d1/9": "2", "d3/0": "2"})
    await lake.catalog.objects.delete("lake", "main", [f"d0/{j}" for j in range(4)])

    names, after, has_more = [], "", True
    while has_more:
        page = await lake.catalog.objects.list("lake", "main", delimiter="/", after=after, amount=2)
        names += sorted([*page.rows.column("key").to_pylist(), *page.prefixes])
        after, has_more = page.last, page.has_more
    assert names == ["d1/", "d2/", "d3/", "top"]
    below = await lake.catalog.objects.list("lake", "main", prefix="d1/", amount=1000)
    assert below.rows.column("key").to_pylist() == ["d1/0", "d1/1", "d1/2", "d1/3", "d1/9"]


async def test_a_condition_is_decided_by_what_the_branch_shows(lake: Lake) -> None:
    await lake.commit("main", a="1")
    with pytest.raises(Exception, match="exists already") as caught:
        await lake.catalog.objects.upload("lake", "main", "a", b"2", condition=IfAbsent())
    assert caught.value.kind is ErrorKind.CONDITION_FAILED

    await lake.catalog.objects.delete("lake", "main", ["a"])
    await lake.catalog.objects.upload("lake", "main", "a", b"3", condition=IfAbsent())
    assert await lake.show("main") == {"a": "3"}


async def test_a_recreated_branch_has_nothing_of_the_deleted_one(lake: Lake) -> None:
    await lake.commit("main", a="1")
    await lake.catalog.branches.create("lake", "dev", "main")
    await lake.commit("dev", a="committed")
    await lake.put("dev", a="staged", b="staged")
    await lake.catalog.branches.delete("lake", "dev")
    with pytest.raises(NotFoundError):
        await lake.show("dev")

    await lake.catalog.branches.create("lake", "dev", "main")
    assert await lake.show("dev") == {"a": "1"}
    await lake.put("dev", c="3")
    assert await lake.show("dev") == {"a": "1", "c": "3"}


async def test_a_recreated_repository_has_nothing_of_the_deleted_one(lake: Lake, site: Site) -> None:
    await lake.commit("main", a="old")
    await lake.put("main", b="old")
    await lake.catalog.tags.create("lake", "v1", "main")
    async with site.lake() as other:
        assert await other.show("main") == {"a": "old", "b": "old"}
        await lake.catalog.repositories.delete("lake")
        with pytest.raises(NotFoundError):
            await other.put("main", c="late")

        await lake.catalog.repositories.create("lake", f"{site.namespaces}again")
        for each in (lake, other):
            assert await each.show("main") == {}
            with pytest.raises(NotFoundError):
                await each.show("v1")
        await other.put("main", a="new")
        assert await lake.show("main") == {"a": "new"}


async def test_nothing_to_commit_is_said_and_allowed_on_request(lake: Lake) -> None:
    await lake.commit("main", a="1")
    await lake.put("main", a="1")
    await lake.catalog.objects.delete("lake", "main", ["never-there"])

    with pytest.raises(InvalidInputError) as caught:
        await lake.catalog.commits.commit("lake", "main", COMMIT)
    assert caught.value.kind is ErrorKind.NO_CHANGES
    await lake.catalog.commits.commit("lake", "main", replace(COMMIT, allow_empty=True))
    assert await lake.show("main") == {"a": "1"}
