"""A change that leaves checksum, size, content type and user metadata as they were is no change."""

from dataclasses import replace

import pytest

from lakebed.catalog.diffs import DiffQuery
from lakebed.catalog.objects import Attributes
from lakebed.env.clock import Instant
from lakebed.errors import ErrorKind, InvalidInputError
from lakebed.model.entries import Entry
from lakebed.model.ids import Path
from lakebed.testing.lake import COMMIT, Lake
from lakebed.versioning.merge import MergeConflictError, MergeRequest
from tests.unit.compaction.shell import Shell, open_shell

TAKE_STAGED = replace(COMMIT, take_staged=True)
MERGE = MergeRequest(commit=COMMIT)


async def at(lake: Lake, path: str, ref: str = "main") -> Entry:
    return await lake.catalog.objects.stat("lake", ref, path)


async def uncommitted(lake: Lake, branch: str = "main") -> list[str]:
    found: list[str] = (
        (await lake.catalog.diffs.uncommitted("lake", branch, DiffQuery())).rows.column("key").to_pylist()
    )
    return found


async def refused(lake: Lake) -> ErrorKind:
    with pytest.raises(InvalidInputError) as caught:
        await lake.catalog.commits.commit("lake", "main", COMMIT)
    return caught.value.kind


async def test_the_same_bytes_again_are_shown_staged_and_nowhere_as_a_change(lake: Lake) -> None:
    await lake.commit("main", a="1")
    committed = await at(lake, "a")
    await lake.put("main", a="1")

    staged = await at(lake, "a")
    assert staged.address != committed.address
    assert await uncommitted(lake) == []
    assert await refused(lake) is ErrorKind.NO_CHANGES
    # The layer has gone, and with it the time at which the same was written again.
    assert await at(lake, "a") == committed


async def test_a_commit_of_more_keeps_the_address_and_time_of_what_is_alike(lake: Lake) -> None:
    await lake.commit("main", a="1", b="1")
    committed = await at(lake, "a")
    head = await lake.commit("main", a="1", b="2")

    assert await at(lake, "a") == await at(lake, "a", head) == committed
    assert await lake.show("main") == {"a": "1", "b": "2"}


@pytest.mark.parametrize("attributes", [Attributes(content_type="text/csv"), Attributes(metadata={"k": "v"})])
async def test_another_content_type_or_other_metadata_is_a_change(lake: Lake, attributes: Attributes) -> None:
    await lake.commit("main", a="1")
    await lake.catalog.objects.upload("lake", "main", "a", b"1", attributes=attributes)

    assert await uncommitted(lake) == ["a"]
    await lake.catalog.commits.commit("lake", "main", COMMIT)
    found = await at(lake, "a", "main@")
    assert (found.content_type, found.metadata) == (attributes.content_type, attributes.metadata or {})


async def test_a_branch_with_nothing_else_takes_a_merge(lake: Lake) -> None:
    await lake.commit("main", a="1")
    await lake.catalog.branches.create("lake", "dev", "main")
    await lake.commit("dev", b="1")
    await lake.put("main", a="1")

    await lake.catalog.diffs.merge("lake", "dev", "main", MERGE)

    assert await lake.show("main") == {"a": "1", "b": "1"}
    assert await uncommitted(lake) == []


async def test_the_same_on_both_sides_of_a_merge_is_no_conflict(lake: Lake) -> None:
    await lake.commit("main", a="1")
    await lake.catalog.branches.create("lake", "dev", "main")
    await lake.commit("dev", a="2")
    await lake.commit("main", a="2")
    ours = await at(lake, "a")

    await lake.catalog.diffs.merge("lake", "dev", "main", MERGE)

    assert await at(lake, "a") == ours


async def test_taking_what_is_staged_puts_its_address_into_the_commit(lake: Lake) -> None:
    await lake.commit("main", a="1", b="1")
    before = await at(lake, "b")
    await lake.put("main", a="1")
    staged = await at(lake, "a")

    made = await lake.catalog.commits.commit("lake", "main", TAKE_STAGED)

    assert await at(lake, "a", made.id) == staged
    assert await at(lake, "b", made.id) == before
    with pytest.raises(InvalidInputError):
        await lake.catalog.commits.commit("lake", "main", TAKE_STAGED)


async def test_a_merge_brings_a_repaired_address_along(lake: Lake) -> None:
    await lake.commit("main", a="1")
    await lake.catalog.branches.create("lake", "dev", "main")
    await lake.put("dev", a="1")
    await lake.catalog.commits.commit("lake", "dev", TAKE_STAGED)

    await lake.catalog.diffs.merge("lake", "dev", "main", MERGE)

    assert await at(lake, "a") == await at(lake, "a", "dev")


def outside(number: int, *, checksum: str = "c", mtime: int = 1) -> Entry:
    address = f"s3://elsewhere/{number}"
    return Entry(path=Path("a"), address=address, checksum=checksum, size_bytes=1, mtime=Instant(mtime))


async def test_the_same_content_at_another_place_outside_is_a_change(lake: Lake) -> None:
    write = lake.engine.parts.staging.write
    branch = (await lake.catalog.branches.get("lake", "main")).name
    await write(lake.repo, branch, [outside(1)])
    await lake.commit("main")
    await lake.catalog.branches.create("lake", "dev", "main")

    await write(lake.repo, branch, [outside(1, mtime=2)])
    assert await refused(lake) is ErrorKind.NO_CHANGES
    await write(lake.repo, branch, [outside(2)])
    assert await uncommitted(lake) == ["a"]
    await lake.commit("main")

    assert (await at(lake, "a", "main@")).address == "s3://elsewhere/2"
    await write(lake.repo, (await lake.catalog.branches.get("lake", "dev")).name, [outside(3)])
    await lake.commit("dev")
    compared = await lake.catalog.diffs.diff("lake", "main", "dev", DiffQuery())
    assert compared.rows.column("type").to_pylist() == ["conflict"]
    with pytest.raises(MergeConflictError):
        await lake.catalog.diffs.merge("lake", "dev", "main", MERGE)


async def test_what_has_no_checksum_equals_nothing_but_itself(lake: Lake) -> None:
    write = lake.engine.parts.staging.write
    branch = (await lake.catalog.branches.get("lake", "main")).name
    await write(lake.repo, branch, [outside(1, checksum="")])
    await lake.commit("main", b="1")

    await lake.commit("main", b="2")
    assert [row["path"] for row in await between(lake, "main~1", "main")] == ["b"]
    await write(lake.repo, branch, [outside(1, checksum="", mtime=2)])
    assert await uncommitted(lake) == ["a"]
    await lake.commit("main")


async def between(lake: Lake, left: str, right: str) -> list[dict[str, str]]:
    rows = (await lake.catalog.diffs.diff("lake", left, right, DiffQuery())).rows
    return [{"path": key} for key in rows.column("key").to_pylist()]


async def address(shell: Shell, path: str) -> str:
    return (await shell.wired.catalog.objects.stat("lake", "main", path)).address


async def test_compaction_of_what_is_alike_leaves_the_tree_and_its_addresses() -> None:
    async with open_shell() as shell:
        await shell.put(**{f"p{n:02}": "old" for n in range(20)})
        await shell.commit()
        committed = {path: await address(shell, path) for path in ("p03", "p17")}
        await shell.put(p03="old", p17="old")
        await shell.seal()
        await shell.compact()

        branch = await shell.branch()
        assert (branch.sealed, branch.compacted) == ((), None)
        assert {path: await address(shell, path) for path in committed} == committed


@pytest.mark.parametrize("compacts", [True, False], ids=["compacted", "committed"])
async def test_what_becomes_alike_again_over_a_compacted_tree_gets_the_committed_address(
    compacts: bool,
) -> None:
    async with open_shell() as shell:
        await shell.put(**{f"p{n:02}": "old" for n in range(20)})
        await shell.commit()
        committed = {path: await address(shell, path) for path in ("p03", "p17")}
        await shell.put(p03="new", new="1")
        await shell.delete("p17")
        await shell.seal()
        await shell.compact()
        await shell.put(p03="old", p17="old")
        await shell.seal()
        if compacts:
            await shell.compact()
            assert (await shell.branch()).sealed == ()
            assert await shell.diff() == [("new", "added")]
        await shell.commit()

        assert {path: await address(shell, path) for path in committed} == committed


async def test_a_range_with_nothing_but_alike_rows_is_not_written_again() -> None:
    async with open_shell() as shell:
        await shell.put(**{f"p{n:02}": "old" for n in range(40)})
        first = await shell.commit()
        await shell.put(**{f"p{n:02}": "old" for n in range(20)}, p39="new")
        second = await shell.commit()

        trees = await shell.wired.engine.parts.trees_of(shell.repo)
        before, after = [
            await trees.ranges((await shell.wired.catalog.commits.get("lake", commit)).tree)
            for commit in (first, second)
        ]
        changed = [info for info in after if info not in before]
        assert len(before) > 4
        assert [(info.min_key <= "p39" <= info.max_key) for info in changed] == [True]
