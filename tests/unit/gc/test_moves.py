"""Whatever moves while a run lists what is live, an address in use is listed: tried before every single step.

Retention is 0 days, so that a commit expires the moment that its branch moves on.
"""

from collections.abc import Awaitable, Callable

import pytest

from lakebed.catalog.links import Linked
from lakebed.catalog.objects import Attributes
from lakebed.catalog.part_uploads import UploadOf
from lakebed.limits import GRACE_SECONDS
from lakebed.model.ids import BranchName, MetarangeId
from lakebed.testing.lake import COMMIT
from lakebed.versioning.merge import MergeRequest
from tests.unit.gc.test_races import before_call
from tests.unit.gc.world import World, open_world

MAIN, DEV = BranchName("main"), BranchName("dev")
Move = Callable[[World], Awaitable[object]]


async def commit(world: World) -> None:
    await world.lake.catalog.commits.commit("lake", "main", COMMIT)


async def copy_staged_then_reset(world: World) -> None:
    copy = world.lake.catalog.objects.copy
    await copy("lake", "dev", "moved", source_path="b", source_ref="main", shallow=True)
    await world.lake.catalog.branches.reset("lake", "main")


async def copy_staged_then_delete(world: World) -> None:
    copy = world.lake.catalog.objects.copy
    await copy("lake", "dev", "moved", source_path="b", source_ref="main", shallow=True)
    await world.lake.catalog.objects.delete("lake", "main", ["b"])


async def copy_committed_then_delete(world: World) -> None:
    copy = world.lake.catalog.objects.copy
    await copy("lake", "dev", "moved", source_path="a", source_ref="main", shallow=True)
    await world.lake.catalog.objects.delete("lake", "main", ["a"])
    await commit(world)


async def copy_then_delete_the_branch(world: World) -> None:
    copy = world.lake.catalog.objects.copy
    await copy("lake", "main", "moved", source_path="s", source_ref="dev", shallow=True)
    await world.lake.catalog.branches.delete("lake", "dev")


async def stash_and_pop_elsewhere(world: World) -> None:
    stash = await world.lake.catalog.stashes.create("lake", "main")
    await world.lake.catalog.stashes.pop("lake", stash.id, into="dev")


async def pop(world: World) -> None:
    (stash,) = await world.lake.catalog.stashes.list("lake")
    await world.lake.catalog.stashes.pop("lake", stash.id)


async def merge(world: World) -> None:
    await world.lake.catalog.commits.commit("lake", "dev", COMMIT)
    await commit(world)
    head = (await world.lake.engine.parts.branches.get(world.lake.repo, MAIN)).value.commit_id
    await world.lake.engine.merger.merge(world.lake.repo, head, DEV, MergeRequest(commit=COMMIT))
    await world.lake.catalog.objects.delete("lake", "main", ["a", "b"])
    await commit(world)


async def branch_off_then_move_on(world: World) -> None:
    await world.lake.catalog.branches.create("lake", "aside", "main")
    await world.lake.catalog.objects.delete("lake", "main", ["a"])
    await commit(world)


async def set_metadata_then_commit(world: World) -> None:
    await world.lake.catalog.objects.set_metadata("lake", "main", "a", {"k": "v"})
    await commit(world)


async def link(world: World) -> None:
    linked = Linked(address=world.notes["link"], checksum="c", size_bytes=1, content_type="")
    await world.lake.catalog.links.link("lake", "main", "linked", linked)


async def complete(world: World) -> None:
    of = UploadOf(repo_name="lake", branch="main", path="uploaded", id=world.notes["upload"])
    await world.lake.catalog.part_uploads.complete(of, [(1, world.notes["part"])])


MOVES: dict[str, Move] = {
    each.__name__: each
    for each in (
        commit,
        copy_staged_then_reset,
        copy_staged_then_delete,
        copy_committed_then_delete,
        copy_then_delete_the_branch,
        stash_and_pop_elsewhere,
        pop,
        merge,
        branch_off_then_move_on,
        set_metadata_then_commit,
        link,
        complete,
    )
}


async def furnish(world: World) -> None:
    """Something on every place that an address may be on its way from, and nothing retired."""
    await world.rules(0)
    await world.lake.commit("main", keep="1")
    await world.lake.catalog.branches.create("lake", "dev", "main")
    await world.lake.commit("main", a="1")
    await world.lake.put("main", x="1")
    await world.lake.catalog.stashes.create("lake", "main")
    await world.lake.put("main", b="1")
    await world.lake.put("dev", s="1")
    world.notes["link"] = (await world.lake.catalog.links.issue("lake", "main", "linked")).address
    uploads = world.lake.catalog.part_uploads
    upload = await uploads.begin("lake", "main", "uploaded", Attributes(content_type=""))
    of = UploadOf(repo_name="lake", branch="main", path="uploaded", id=upload.id)

    async def chunks():  # type: ignore[no-untyped-def]
        yield b"part"

    part = await uploads.put(of, 1, chunks(), size_bytes=4)
    world.notes |= {"upload": upload.id, "part": part.md5}
    world.clock.advance(GRACE_SECONDS + 1)
    await world.lake.cleaner.clean_once()


async def in_use(world: World) -> set[str]:
    """Return the addresses that a reader of any branch finds."""
    found: set[str] = set()
    branches = await world.lake.engine.parts.branches.list_by_commit(world.lake.repo)
    for branch in branches:
        page = await world.lake.catalog.objects.list("lake", branch.name, amount=1000)
        found |= {await world.address(branch.name, path) for path in page.rows.column("key").to_pylist()}
    return found


async def committed(world: World, commits: set[str]) -> set[str]:
    """Return the addresses in the trees of commits, as a job reads them."""
    trees = await world.lake.engine.parts.trees_of(world.lake.repo)
    found: set[str] = set()
    for each in commits:
        tree: MetarangeId = (await world.lake.catalog.commits.get("lake", each)).tree
        async for block in trees.scan(tree):
            found |= set(block.column("address").to_pylist())
    return found


@pytest.mark.parametrize("name", MOVES)
async def test_an_address_in_use_is_listed_whatever_moves_meanwhile(name: str) -> None:
    number, reached = 0, True
    while reached:
        async with open_world() as world:
            await furnish(world)
            before = await in_use(world)
            of = await world.begin()
            done = before_call(world, number, lambda world=world: MOVES[name](world))  # type: ignore[misc]
            listed = set(await world.uncommitted(of))
            live = (await world.commits(of)).live
            await world.publish(of)
            world.kv.hook = None
            reached = bool(done)
            used = await in_use(world)
            new = used - before if name not in ("link", "complete", "pop") else set()
            missing = used - new - listed - await committed(world, live)
            assert not missing, f"{name} before call {number}"
        number += 1
    assert number > 20, "the scenario never reached the interesting part"
