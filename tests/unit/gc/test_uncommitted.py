"""Whatever is uncommitted is listed, wherever it is on its way, and nothing is left out in silence."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from lakebed.catalog.link_tokens import LinkTokens
from lakebed.catalog.links import Linked
from lakebed.catalog.objects import Attributes
from lakebed.catalog.part_uploads import UploadOf
from lakebed.catalog.shared_addresses import sweep_copies
from lakebed.errors import (
    ConflictError,
    CorruptError,
    ErrorKind,
    InvalidInputError,
    LakebedError,
    UnavailableError,
)
from lakebed.format.gc import UNCOMMITTED_FILE, decode_table
from lakebed.format.rows import OPEN_KEY, ROW_PREFIX
from lakebed.gc.cursor import Cursor, decode_cursor, encode_cursor
from lakebed.gc.uncommitted import UncommittedLists
from lakebed.kv.port import Row, prefix_end
from lakebed.limits import COPY_LIFETIME_SECONDS, GRACE_SECONDS, LINK_LIFETIME_SECONDS, SLICE_SECONDS
from lakebed.model.ids import BranchName, Nonce
from lakebed.model.layers import RetiredLayer, TokenLayer
from lakebed.refs.keys import COPIES_PREFIX, LINKS_PREFIX, STASHES_PREFIX, UPLOADS_PREFIX
from lakebed.staging.appending import SegmentUse
from lakebed.staging.record import seal
from tests.unit.gc.world import World, open_world

MAIN = BranchName("main")


def small_pages(world: World, rows: int) -> None:
    """Let a page end after so many rows."""
    world.gc._uncommitted = UncommittedLists(
        world.lake.engine.parts, world.lake.engine.store_of, page_rows=rows
    )


async def test_a_repository_with_nothing_uncommitted_has_one_empty_page(world: World) -> None:
    await world.lake.commit("main", a="a")
    world.clock.advance(GRACE_SECONDS + 1)
    await world.lake.cleaner.clean_once()
    page = await world.gc.prepare_uncommitted(world.lake.repo, None)
    store = await world.lake.engine.store_of(world.lake.repo)
    assert page.rows == 0
    assert page.following is None
    assert decode_table(UNCOMMITTED_FILE, await store.get(page.key)).num_rows == 0


async def test_staged_rows_are_listed_with_when_they_were_written(world: World) -> None:
    await world.lake.put("main", a="a", b="b")
    a, b = await world.address("main", "a"), await world.address("main", "b")
    assert await world.uncommitted() == {a: {"row"}, b: {"row"}}


async def test_what_is_overwritten_or_deleted_in_one_layer_is_listed_while_another_has_it(
    world: World,
) -> None:
    await world.lake.put("main", a="1", b="1")
    old = {await world.address("main", "a"), await world.address("main", "b")}
    await _seal(world)
    await world.lake.put("main", a="2")
    await world.lake.catalog.objects.delete("lake", "main", ["b"])
    new = await world.address("main", "a")
    found = await world.uncommitted()
    assert found.keys() == {*old, new}


async def test_a_row_that_is_overwritten_in_its_own_layer_is_garbage(world: World) -> None:
    await world.lake.put("main", a="1")
    old = await world.address("main", "a")
    await world.lake.put("main", a="2")
    assert old not in await world.uncommitted()


async def test_retired_layers_are_listed_for_a_grace(world: World) -> None:
    await world.lake.put("main", a="1")
    address = await world.address("main", "a")
    await world.lake.catalog.branches.reset("lake", "main")
    assert await world.uncommitted() == {address: {"retired"}}
    world.clock.advance(GRACE_SECONDS + 1)
    await world.lake.cleaner.clean_once()
    assert await world.uncommitted() == {}


async def test_what_a_deleted_branch_leaves_is_listed_for_a_grace(world: World) -> None:
    await world.lake.catalog.branches.create("lake", "dev", "main")
    await world.lake.put("dev", a="1")
    address = await world.address("dev", "a")
    await world.lake.catalog.branches.delete("lake", "dev")
    assert await world.uncommitted() == {address: {"retired"}}


async def test_segments_are_listed_without_their_tombstones() -> None:
    async with open_world(staging_segments=SegmentUse.ALWAYS) as world:
        await world.lake.put("main", a="1", b="1")
        await world.lake.catalog.objects.delete("lake", "main", ["b"])
        found = await world.uncommitted()
        assert await world.address("main", "a") in found
        assert set().union(*found.values()) == {"segment"}
        assert "" not in found


async def test_of_a_compacted_tree_what_the_commit_does_not_share_is_listed(world: World) -> None:
    await world.lake.commit("main", a="1", b="1")
    committed = await world.address("main", "b")
    await world.lake.put("main", a="2")
    staged = await world.address("main", "a")
    await _compact(world)
    found = await world.uncommitted()
    assert found[staged] >= {"compacted"}
    assert committed in found, "it shares a range with what is staged"
    await world.lake.catalog.branches.reset("lake", "main")
    assert "compacted" in (await world.uncommitted())[staged], "a retired tree"


async def test_equal_content_at_another_address_is_listed(world: World) -> None:
    await world.lake.commit("main", a="same")
    committed = await world.address("main", "a")
    await world.lake.put("main", a="same")
    staged = await world.address("main", "a")
    assert staged != committed
    assert staged in await world.uncommitted()
    await _compact(world, exact=True)
    await _forget_rows(world)
    assert await world.address("main", "a") == staged
    assert staged in await world.uncommitted()


async def test_an_address_that_compaction_has_left_for_the_committed_one_is_not_listed(world: World) -> None:
    await world.lake.commit("main", a="same")
    committed = await world.address("main", "a")
    await world.lake.put("main", a="same")
    await _compact(world)
    await _forget_rows(world)
    assert await world.address("main", "a") == committed
    assert await world.uncommitted() == {}


async def test_a_tree_that_the_commit_shares_wholly_is_not_read(world: World) -> None:
    await world.lake.commit("main", a="1")
    parts, repo = world.lake.engine.parts, world.lake.repo
    main = await parts.branches.get(repo, MAIN)
    await parts.branches.swap(
        repo, main, replace(main.value, compacted=await parts.base_tree(repo, main.value))
    )
    await _forget_rows(world)
    assert await world.uncommitted() == {}


async def test_stashes_are_listed_while_their_record_stands_and_a_grace_after_they_were_popped(
    world: World,
) -> None:
    await world.lake.put("main", a="1")
    address = await world.address("main", "a")
    stash = await world.lake.catalog.stashes.create("lake", "main")
    world.clock.advance(10 * GRACE_SECONDS)
    await world.lake.cleaner.clean_once()
    assert await world.uncommitted() == {address: {"stash"}}
    await world.lake.catalog.stashes.pop("lake", stash.id)
    assert "stash" in (await world.uncommitted())[address]


async def test_an_address_that_was_given_out_is_listed_until_a_grace_after_it_expired(world: World) -> None:
    issued = await world.lake.catalog.links.issue("lake", "main", "a")
    address = issued.address.removeprefix(f"{world.lake.repo.namespace}/")
    world.clock.advance(LINK_LIFETIME_SECONDS)
    assert await world.uncommitted() == {address: {"link"}}
    world.clock.advance(GRACE_SECONDS + 1)
    assert await world.uncommitted() == {}


async def test_an_address_that_was_linked_is_listed_as_given_out_until_its_token_ends(world: World) -> None:
    issued = await world.lake.catalog.links.issue("lake", "main", "a")
    linked = Linked(address=issued.address, checksum="c", size_bytes=1, content_type="")
    await world.lake.catalog.links.link("lake", "main", "a", linked)
    address = issued.address.removeprefix(f"{world.lake.repo.namespace}/")
    assert await world.uncommitted() == {address: {"row", "link"}}
    world.clock.advance(LINK_LIFETIME_SECONDS)
    assert await world.uncommitted() == {address: {"row", "link"}}
    world.clock.advance(GRACE_SECONDS + 1)
    assert await world.uncommitted() == {address: {"row"}}


async def test_used_tokens_are_kept_long_enough_to_be_met(world: World) -> None:
    issued = await world.lake.catalog.links.issue("lake", "main", "a")
    world.clock.advance(LINK_LIFETIME_SECONDS - 1)
    linked = Linked(address=issued.address, checksum="c", size_bytes=1, content_type="")
    await world.lake.catalog.links.link("lake", "main", "a", linked)
    world.clock.advance(GRACE_SECONDS)
    assert await LinkTokens(world.lake.engine).sweep(world.lake.repo) == 0
    world.clock.advance(GRACE_SECONDS + SLICE_SECONDS)
    assert await LinkTokens(world.lake.engine).sweep(world.lake.repo) == 1


async def test_uploads_in_parts_are_listed_while_open_and_a_grace_after(world: World) -> None:
    uploads = world.lake.catalog.part_uploads
    upload = await uploads.begin("lake", "main", "a", Attributes(content_type=""))
    of = UploadOf(repo_name="lake", branch="main", path="a", id=upload.id)
    assert await world.uncommitted() == {upload.address: {"upload"}}

    async def chunks() -> Any:
        yield b"part"

    part = await uploads.put(of, 1, chunks(), size_bytes=4)
    await uploads.complete(of, [(1, part.md5)])
    assert await world.uncommitted() == {upload.address: {"row", "upload"}}
    world.clock.advance(GRACE_SECONDS + 1)
    assert await world.uncommitted() == {upload.address: {"row"}}


async def test_an_aborted_upload_is_not_listed(world: World) -> None:
    uploads = world.lake.catalog.part_uploads
    upload = await uploads.begin("lake", "main", "a", Attributes(content_type=""))
    await uploads.abort(UploadOf(repo_name="lake", branch="main", path="a", id=upload.id))
    assert await world.uncommitted() == {}


async def test_copies_are_listed_for_a_day_and_then_forgotten(world: World) -> None:
    await world.lake.commit("main", a="1")
    world.clock.advance(GRACE_SECONDS + 1)
    await world.lake.cleaner.clean_once()
    address = await world.address("main", "a")
    await world.lake.catalog.objects.copy("lake", "main", "b", source_path="a", shallow=True)
    await world.lake.catalog.objects.delete("lake", "main", ["b"])
    assert await world.uncommitted() == {address: {"copy"}}
    world.clock.advance(COPY_LIFETIME_SECONDS)
    assert await sweep_copies(world.lake.engine, world.lake.repo) == 0
    world.clock.advance(GRACE_SECONDS + 1)
    assert await world.uncommitted() == {}
    assert await sweep_copies(world.lake.engine, world.lake.repo) == 1


async def test_a_copy_whose_source_went_before_it_was_noted_has_bytes_of_its_own(world: World) -> None:
    await world.lake.put("main", a="1")
    address = await world.address("main", "a")

    async def delete(call: str, what: Any) -> None:
        if call == "set_rows" and what[0].key.startswith(COPIES_PREFIX):
            world.kv.hook = None
            await world.lake.catalog.objects.delete("lake", "main", ["a"])

    world.kv.hook = delete
    copied = await world.lake.catalog.objects.copy("lake", "main", "b", source_path="a", shallow=True)
    assert copied.address != address
    assert (await world.lake.show("main"))["b"] == "1"


async def test_addresses_outside_the_namespace_are_left_out(world: World) -> None:
    await world.lake.put("main", a="1")
    parts, repo = world.lake.engine.parts, world.lake.repo
    entry = await world.lake.catalog.objects.stat("lake", "main", "a")
    outside = msgspec.structs.replace(entry, path="x", address="s3://elsewhere/x")
    await parts.staging.write(repo, MAIN, [outside])
    assert (await world.uncommitted()).keys() == {entry.address}


@pytest.mark.parametrize("rows", [1, 2, 3, 7])
async def test_pages_of_any_size_list_the_same(rows: int) -> None:
    async with open_world() as world:
        await _furnish(world)
        whole = await world.uncommitted()
        small_pages(world, rows)
        assert await world.uncommitted() == whole


async def test_a_page_goes_on_with_the_record_that_the_page_before_began(world: World) -> None:
    await world.lake.put("main", **{f"k{index}": str(index) for index in range(4)})
    await _seal(world)
    await world.lake.put("main", new="n")
    expected = await world.uncommitted()
    small_pages(world, 1)
    first = await world.gc.prepare_uncommitted(world.lake.repo, None)
    assert first.following is not None
    assert first.following.record
    await world.lake.commit("main", more="m")
    found = await _rest(world, first.following) | await _addresses(world, first.key)
    assert expected.keys() <= found


async def test_a_layer_that_was_dropped_between_two_pages_makes_its_branch_begin_again(world: World) -> None:
    await world.lake.put("main", a="1")
    await _seal(world)
    await world.lake.put("main", b="1")
    await _seal(world)
    b = await world.address("main", "b")
    await world.lake.put("main", c="1")
    small_pages(world, 1)
    first = await world.gc.prepare_uncommitted(world.lake.repo, None)
    assert first.following is not None
    await world.lake.catalog.branches.reset("lake", "main")
    await world.lake.put("main", d="1")
    d = await world.address("main", "d")
    main = (await world.lake.engine.parts.branches.get(world.lake.repo, MAIN)).value
    token = next(each.layer for each in main.retired if each.layer.seq == 1)
    await world.lake.engine.parts.branches.update(
        world.lake.repo,
        MAIN,
        lambda branch, _now: replace(
            branch, retired=tuple(each for each in branch.retired if each.layer != token)
        ),
        landed=lambda branch: all(each.layer != token for each in branch.retired),
    )
    assert isinstance(token, TokenLayer)
    await world.kv.drop(token.token, first=[OPEN_KEY])
    found = await _rest(world, first.following)
    assert {b, d} <= found


@pytest.mark.parametrize("folder", [STASHES_PREFIX, LINKS_PREFIX, UPLOADS_PREFIX, COPIES_PREFIX])
async def test_what_leaves_a_branch_while_it_is_listed_is_met_where_it_goes(
    world: World, folder: bytes
) -> None:
    """Each step happens after the branches were read, and before the place is read that knows of it."""
    steps: dict[bytes, Callable[[World], Awaitable[str]]] = {
        STASHES_PREFIX: _pop,
        LINKS_PREFIX: _link,
        UPLOADS_PREFIX: _complete,
        COPIES_PREFIX: _copy_and_delete,
    }
    await _before(world, folder)
    moved: list[str] = []

    async def hook(call: str, what: Any) -> None:
        if call == "scan" and what == folder:
            world.kv.hook = None
            moved.append(await steps[folder](world))

    world.kv.hook = hook
    assert set((await world.uncommitted()).keys()) >= set(moved) != set()


async def test_a_listing_that_takes_half_a_grace_is_refused(world: World) -> None:
    await world.lake.put("main", a="1", b="1")
    small_pages(world, 1)
    first = await world.gc.prepare_uncommitted(world.lake.repo, None)
    assert first.following is not None
    world.clock.advance(GRACE_SECONDS / 2)
    with pytest.raises(ConflictError) as caught:
        await world.gc.prepare_uncommitted(world.lake.repo, None, continuation=encode_cursor(first.following))
    assert caught.value.kind is ErrorKind.TOO_LATE


@pytest.mark.parametrize(
    "key", [b"branches/zz", b"stashes/zz", b"links/data/a/b", b"uploads/zz", b"copies/data/a/b/n"]
)
async def test_a_record_that_cannot_be_read_is_an_error(world: World, key: bytes) -> None:
    await world.kv.set_rows(world.lake.repo.partition, [Row(key, b"\x01rubbish")])
    with pytest.raises(CorruptError):
        await world.uncommitted()


async def test_a_row_or_a_store_that_cannot_be_read_is_an_error(world: World) -> None:
    await world.lake.put("main", a="1")
    main = (await world.lake.engine.parts.branches.get(world.lake.repo, MAIN)).value
    assert main.staging_token is not None
    await world.kv.set_rows(main.staging_token, [Row(ROW_PREFIX + b"b", b"\x01")])
    with pytest.raises(CorruptError):
        await world.uncommitted()

    async def down(call: str, _what: Any) -> None:
        if call == "scan":
            raise UnavailableError(ErrorKind.STORE_UNAVAILABLE, "down")

    world.kv.hook = down
    with pytest.raises(LakebedError):
        await world.uncommitted()


async def test_a_segment_that_is_gone_while_its_branch_names_it_is_an_error() -> None:
    async with open_world(staging_segments=SegmentUse.ALWAYS) as world:
        await world.lake.put("main", a="1")
        store = await world.lake.engine.store_of(world.lake.repo)
        async for infos in store.list("_lakebed/segments/"):
            await store.delete([info.key for info in infos])
        world.lake.engine.parts.segments._cache._held.clear()  # type: ignore[attr-defined]
        with pytest.raises(CorruptError):
            await world.uncommitted()


def test_a_continuation_that_nobody_gave_is_refused() -> None:
    for text in ("rubbish", "", "e30=", "£"):
        with pytest.raises(InvalidInputError):
            decode_cursor(text)


async def test_a_continuation_of_another_run_is_refused(world: World) -> None:
    of = await world.begin()
    other = encode_cursor(Cursor(run="other", started_at=world.clock.now()))
    with pytest.raises(InvalidInputError):
        await world.gc.prepare_uncommitted(world.lake.repo, of, continuation=other)


async def test_two_tries_of_a_page_do_not_share_a_file(world: World) -> None:
    cursor = Cursor(run="r", started_at=world.clock.now())
    lists = UncommittedLists(world.lake.engine.parts, world.lake.engine.store_of)
    assert (await lists.page(world.lake.repo, cursor)).key != (await lists.page(world.lake.repo, cursor)).key


async def _seal(world: World) -> None:
    parts = world.lake.engine.parts

    main = (await parts.branches.get(world.lake.repo, MAIN)).value
    await parts.branches.update(
        world.lake.repo,
        MAIN,
        lambda branch, _now: seal(branch),
        landed=lambda branch: branch.next_seq > main.next_seq,
    )


async def _compact(world: World, *, exact: bool = False) -> None:
    """Fold everything staged on main into a compacted tree, as compaction does; `exact`: as it did in earlier versions."""
    await _seal(world)
    parts, repo = world.lake.engine.parts, world.lake.repo
    main = await parts.branches.get(repo, MAIN)
    trees = await parts.trees_of(repo)
    made = await trees.apply(
        await parts.base_tree(repo, main.value),
        parts.staging.reader.scan(repo, main.value),
        nonce=Nonce("job"),
        exact=exact,
    )
    now = await world.kv.now()
    retired = tuple(RetiredLayer(layer=layer, at=now) for layer in main.value.sealed)
    await parts.branches.swap(
        repo, main, replace(main.value, sealed=(), compacted=made.id, retired=(*main.value.retired, *retired))
    )


async def _forget_rows(world: World) -> None:
    """Let everything that is retired be dropped."""
    world.clock.advance(GRACE_SECONDS + 1)
    await world.lake.cleaner.clean_once()


async def _furnish(world: World) -> None:
    await world.lake.commit("main", a="1", b="1")
    await world.lake.put("main", **{f"k{index}": str(index) for index in range(5)})
    await _seal(world)
    await world.lake.put("main", k1="again", z="z")
    for name in ("dev", "dev2", "empty"):
        await world.lake.catalog.branches.create("lake", name, "main")
    await world.lake.put("dev", x="x", y="y")
    await world.lake.put("dev2", x="x")
    await world.lake.catalog.branches.delete("lake", "dev2")
    await world.lake.catalog.stashes.create("lake", "dev")
    await world.lake.put("dev", w="w")
    for path in ("l1", "l2", "l3"):
        await world.lake.catalog.links.issue("lake", "main", path)
    await world.lake.catalog.part_uploads.begin("lake", "main", "p", Attributes(content_type=""))
    for path in ("c1", "c2"):
        await world.lake.catalog.objects.copy("lake", "main", path, source_path="a", shallow=True)


async def _addresses(world: World, key: str) -> set[str]:
    store = await world.lake.engine.store_of(world.lake.repo)
    return set(decode_table(UNCOMMITTED_FILE, await store.get(key)).column("address").to_pylist())


async def _rest(world: World, cursor: Cursor | None) -> set[str]:
    found: set[str] = set()
    while cursor is not None:
        page = await world.gc.prepare_uncommitted(world.lake.repo, None, continuation=encode_cursor(cursor))
        found |= await _addresses(world, page.key)
        cursor = page.following
    return found


async def _before(world: World, folder: bytes) -> None:
    if folder == STASHES_PREFIX:
        await world.lake.put("main", a="1")
        await world.lake.catalog.stashes.create("lake", "main")
        await _forget_rows(world)
    if folder == LINKS_PREFIX:
        await world.lake.catalog.links.issue("lake", "main", "a")
    if folder == UPLOADS_PREFIX:
        await world.lake.catalog.part_uploads.begin("lake", "main", "a", Attributes(content_type=""))
    if folder == COPIES_PREFIX:
        await world.lake.catalog.branches.create("lake", "after", "main")
        await world.lake.commit("main", a="1")
        await _forget_rows(world)


async def _pop(world: World) -> str:
    (stash,) = await world.lake.catalog.stashes.list("lake")
    await world.lake.catalog.stashes.pop("lake", stash.id)
    return await world.address("main", "a")


async def _link(world: World) -> str:
    key = (await _keys(world, LINKS_PREFIX))[0].decode().removeprefix("links/")
    linked = Linked(address=f"{world.lake.repo.namespace}/{key}", checksum="c", size_bytes=1, content_type="")
    await world.lake.catalog.links.link("lake", "main", "a", linked)
    return key


async def _complete(world: World) -> str:
    (upload,) = await world.lake.catalog.part_uploads.under_way("lake")
    of = UploadOf(repo_name="lake", branch="main", path="a", id=upload.id)

    async def chunks() -> Any:
        yield b"part"

    part = await world.lake.catalog.part_uploads.put(of, 1, chunks(), size_bytes=4)
    await world.lake.catalog.part_uploads.complete(of, [(1, part.md5)])
    return upload.address


async def _copy_and_delete(world: World) -> str:
    address = await world.address("main", "a")
    await world.lake.catalog.objects.copy(
        "lake", "after", "b", source_path="a", source_ref="main", shallow=True
    )
    await world.lake.catalog.objects.delete("lake", "main", ["a"])
    return address


async def _keys(world: World, folder: bytes) -> list[bytes]:
    pages = world.kv.scan(world.lake.repo.partition, start=folder, end=prefix_end(folder))
    return [key async for page in pages for key in page.keys]
