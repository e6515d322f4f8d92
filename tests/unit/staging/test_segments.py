"""Segments among the layers: read in their order, written whole, and told from lost ones."""

import asyncio
from dataclasses import replace

import pytest
from msgspec import structs

from lakebed.env.clock import Instant
from lakebed.errors import ConflictError, CorruptError, ErrorKind, PreconditionError, UnavailableError
from lakebed.format.blocks import block_changes
from lakebed.kv.drivers.memory import MemoryKV
from lakebed.limits import SEALED_LAYERS_SLOWDOWN, SEGMENT_BATCH_ROWS, SEGMENT_LAYERS_MAX, SEGMENT_RETIRED_MAX
from lakebed.model.ids import BranchName, Path
from lakebed.model.layers import RetiredLayer, SegmentLayer, TokenLayer
from lakebed.model.segments import segment_key
from lakebed.staging.appending import SegmentUse, sorted_block
from lakebed.staging.conditions import IfAbsent, IfChecksum
from lakebed.staging.reader import LayersMovedError
from tests.unit.staging.conftest import MAIN, REPO, Lake, entry, make_lake, tombstone


@pytest.fixture
async def always() -> Lake:
    return await make_lake(use=SegmentUse.ALWAYS)


async def lay(lake: Lake, *changes) -> SegmentLayer:
    """Append changes as a segment, whatever the writer would do."""
    appended = await lake.staging._appender.append(REPO, await lake.branch(), sorted_block(changes))
    layer = appended.sealed[0]
    assert isinstance(layer, SegmentLayer)
    return layer


async def shown(lake: Lake, **within) -> dict[str, str | None]:
    """Every staged path and its checksum, by a scan."""
    found = {}
    async for block in lake.staging.reader.scan(REPO, await lake.branch(), **within):
        for change in block_changes(block):
            found[change.path] = getattr(change, "checksum", None)
    return found


async def test_tokens_and_segments_are_read_newest_first() -> None:
    lake = await make_lake()
    await lake.write(entry("a", "1"), entry("b", "1"), entry("c", "1"))
    await lay(lake, entry("b", "2"), tombstone("c"), entry("d", "2"))
    await lake.write(entry("a", "3"), entry("d", "3"))
    await lay(lake, tombstone("d"))
    await lake.write(entry("c", "5"))

    assert await shown(lake) == {"a": "3", "b": "2", "c": "5", "d": None}
    for path, change in {
        "a": entry("a", "3"),
        "b": entry("b", "2"),
        "c": entry("c", "5"),
        "d": tombstone("d"),
        "e": None,
    }.items():
        assert await lake.find(path) == change
    kinds = [type(layer) for layer in (await lake.branch()).sealed]
    assert kinds == [SegmentLayer, TokenLayer, SegmentLayer, TokenLayer]


@pytest.mark.parametrize("rows", [1, 2, 3, 100])
async def test_first_keys_and_bounded_scans_see_segments(rows: int) -> None:
    lake = await make_lake()
    await lay(lake, *(entry(f"a/{n}") for n in range(5)))
    await lake.write(tombstone("a/1"), entry("b"))
    await lay(lake, tombstone("a/2"), entry("é"))

    paths, start = {}, ""
    while True:
        keys = await lake.staging.reader.keys(REPO, await lake.branch(), start=start, prefix="", rows=rows)
        paths |= dict(zip(keys.paths, keys.deleted, strict=True))
        if keys.stop is None:
            break
        start = keys.stop
    everything = {f"a/{n}": n in (1, 2) for n in range(5)} | {"b": False, "é": False}
    assert paths == everything
    assert list(await shown(lake, prefix="a/", first_page=rows)) == [f"a/{n}" for n in range(5)]
    assert list(await shown(lake, start="a/3", stop="é", first_page=rows)) == ["a/3", "a/4", "b"]


async def test_a_path_outside_a_segment_or_not_in_its_filter_fetches_nothing() -> None:
    lake = await make_lake()
    await lay(lake, entry("b"), entry("d"))
    lake.bucket.objects.clear()
    lake.segments._cache._held.clear()

    assert await lake.find("a") is None
    assert await lake.find("e") is None
    assert await lake.find("c") is None, "the writer has kept the footer"


async def test_a_missing_file_of_a_layer_that_left_means_look_again_and_of_one_that_is_there_is_told(
    always: Lake,
) -> None:
    await always.write(entry("a", "old"))
    old = await always.branch()
    always.bucket.objects.clear()
    always.segments._cache._held.clear()

    with pytest.raises(CorruptError) as caught:
        await always.find("a")
    assert caught.value.kind is ErrorKind.FILE_MISSING
    assert segment_key(old.sealed[0].id) in str(caught.value)

    await always.branches.update(REPO, MAIN, lambda b, _now: replace(b, sealed=()), landed=lambda b: False)
    await always.write(entry("a", "new"))
    _, staged = await always.staging.reader.lookup(REPO, old, Path("a"))
    assert staged is not None
    assert staged.change == entry("a", "new")
    with pytest.raises(LayersMovedError):
        [block async for block in always.staging.reader.scan(REPO, old)]


async def test_a_small_batch_goes_as_rows_and_a_large_one_as_one_segment() -> None:
    lake = await make_lake()
    await lake.write(entry("a"))
    assert (await lake.branch()).sealed == ()

    await lake.write(*(entry(f"p{n}") for n in range(SEGMENT_BATCH_ROWS)), entry("p0", "last"))

    branch = await lake.branch()
    newest = branch.sealed[0]
    assert isinstance(newest, SegmentLayer)
    assert (newest.entries, newest.dataset, branch.staging_token) == (
        SEGMENT_BATCH_ROWS,
        branch.incarnation,
        None,
    )
    assert await lake.find("p0") == entry("p0", "last")
    assert await lake.find("a") == entry("a")


async def test_what_arrives_meanwhile_shares_a_segment(always: Lake) -> None:
    await asyncio.gather(*(always.write(entry(f"p{n}")) for n in range(10)))

    assert len((await always.branch()).sealed) == 1
    assert len(await shown(always)) == 10


async def test_writers_are_never_told_to_wait_because_no_one_merges_segments(always: Lake) -> None:
    for n in range(2 * SEALED_LAYERS_SLOWDOWN):
        await always.write(entry(f"p{n}"))

    branch = await always.branch()
    assert len(branch.sealed) == SEGMENT_LAYERS_MAX
    assert branch.staging_token is not None
    assert len(await shown(always)) == 2 * SEALED_LAYERS_SLOWDOWN


async def test_a_record_that_lists_many_retired_layers_gets_no_longer_by_segments(always: Lake) -> None:
    await always.write(entry("a"))
    left = RetiredLayer(layer=(await always.branch()).sealed[0], at=Instant(1))
    await always.branches.update(
        REPO,
        MAIN,
        lambda b, _now: replace(b, sealed=(), retired=(left,) * SEGMENT_RETIRED_MAX),
        landed=lambda b: False,
    )

    await always.write(entry("b"))

    branch = await always.branch()
    assert branch.sealed == ()
    assert branch.staging_token is not None


async def test_a_condition_sees_a_row_that_arrives_while_it_is_decided(always: Lake) -> None:
    """A row changes no record, so the token is closed before anything is decided."""
    rows = await make_lake(always.kv)
    await rows.write(entry("other"))
    deciding, written = asyncio.Event(), asyncio.Event()
    lookup = always.base.lookup

    async def slow_lookup(*args):
        found = await lookup(*args)
        deciding.set()
        await written.wait()
        return found

    always.base.lookup = slow_lookup  # type: ignore[method-assign]
    conditional = asyncio.create_task(always.write(entry("a", "mine"), condition=IfAbsent()))
    await deciding.wait()
    await rows.write(entry("a", "theirs"))
    written.set()

    with pytest.raises(PreconditionError):
        await conditional
    assert await always.find("a") == entry("a", "theirs")


async def test_conditions_of_one_batch_are_decided_in_order_of_arrival(always: Lake) -> None:
    results = await asyncio.gather(
        always.write(entry("busy")),
        always.write(entry("a", "1"), condition=IfAbsent()),
        always.write(entry("a", "2"), condition=IfAbsent()),
        always.write(entry("a", "3"), condition=IfChecksum("1")),
        return_exceptions=True,
    )

    assert [type(result) for result in results] == [type(None), type(None), PreconditionError, type(None)]
    assert await always.find("a") == entry("a", "3")


async def test_a_value_that_cannot_be_stored_fails_only_its_own_request(always: Lake) -> None:
    bad = structs.replace(entry("bad"), size_bytes=2**70)

    results = await asyncio.gather(
        always.write(entry("first")), always.write(bad), always.write(entry("ok")), return_exceptions=True
    )

    assert [getattr(r, "kind", None) for r in results] == [None, ErrorKind.INVALID_ARGUMENT, None]
    assert set(await shown(always)) == {"first", "ok"}


class LostReply(MemoryKV):
    """Applies a swap of the branch record and loses the reply."""

    losing = False

    async def swap(self, *args, **kwargs):
        version = await super().swap(*args, **kwargs)
        if self.losing:
            self.losing = False
            raise UnavailableError(ErrorKind.OUTCOME_UNKNOWN, "lost")
        return version


async def test_a_lost_reply_to_the_append_is_recognised_by_the_segments_name() -> None:
    kv = LostReply()
    lake = await make_lake(kv, use=SegmentUse.ALWAYS)
    kv.losing = True

    await lake.write(entry("a"))

    assert len((await lake.branch()).sealed) == 1
    assert len(lake.bucket.objects) == 1


async def test_a_segment_of_an_older_era_is_written_again_under_a_new_name(always: Lake) -> None:
    write = always.segments.write_all
    names = []

    async def slow_write(repo, segment_id, datasets):
        layers = await write(repo, segment_id, datasets)
        names.append(segment_id)
        if len(names) == 1:
            branch = await always.branches.get(REPO, MAIN)
            await always.branches.swap(REPO, branch, replace(branch.value, min_era=10**6))
            always.kv.now = later  # type: ignore[method-assign]
        return layers

    now = always.kv.now

    async def later():
        return type(await now())(10**6 * 3600 * 10**6)

    always.segments.write_all = slow_write  # type: ignore[method-assign]

    await always.write(entry("a"))

    assert names[1].startswith("01000000-")
    assert [layer.id for layer in (await always.branch()).sealed] == [names[1]]


async def test_a_branch_created_again_meanwhile_gets_the_write_under_its_own_name(always: Lake) -> None:
    dev = BranchName("dev")
    head = (await always.branch()).commit_id
    await always.branches.create(REPO, dev, head)
    write = always.segments.write_all

    async def slow_write(repo, segment_id, datasets):
        layers = await write(repo, segment_id, datasets)
        if len(always.bucket.objects) == 1:
            await always.branches.delete(REPO, dev)
            await always.branches.create(REPO, dev, head)
        return layers

    always.segments.write_all = slow_write  # type: ignore[method-assign]
    await always.staging.write(REPO, dev, [entry("a")])

    branch = (await always.branches.get(REPO, dev)).value
    assert [layer.dataset for layer in branch.sealed] == [branch.incarnation]


async def test_an_exact_append_is_refused_once_the_record_has_changed(always: Lake) -> None:
    branch = await always.branch()
    await always.write(entry("a"))

    with pytest.raises(ConflictError):
        await always.staging._appender.append(REPO, branch, sorted_block([entry("b")]), exactly=True)
    assert set(await shown(always)) == {"a"}
