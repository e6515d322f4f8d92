"""Staged writes: acknowledged means visible and safe."""

import asyncio
from dataclasses import replace

import pytest
from msgspec import structs

from lakebed.errors import ConflictError, ErrorKind, PreconditionError, UnavailableError
from lakebed.format.blocks import block_changes
from lakebed.kv.drivers.memory import MemoryKV
from lakebed.limits import SEALED_LAYERS_SLOWDOWN
from lakebed.model.ids import StagingToken
from lakebed.model.layers import TokenLayer
from lakebed.staging.conditions import IfAbsent, IfChecksum, IfSame
from lakebed.staging.record import push_layer, seal
from tests.unit.staging.conftest import MAIN, REPO, Lake, entry, make_lake, tombstone


async def sealed(lake: Lake) -> None:
    await lake.branches.update(REPO, MAIN, lambda b, _now: seal(b), landed=lambda b: False)


async def test_a_write_is_visible_when_it_returns(lake: Lake) -> None:
    await lake.write(entry("a"))

    assert await lake.find("a") == entry("a")
    assert await lake.find("b") is None


async def test_the_newest_layer_wins(lake: Lake) -> None:
    await lake.write(entry("a", "1"), entry("b", "1"))
    await sealed(lake)
    await lake.write(entry("a", "2"))
    await sealed(lake)
    await lake.write(tombstone("b"))

    assert await lake.find("a") == entry("a", "2")
    assert await lake.find("b") == tombstone("b")
    blocks = [b async for b in lake.staging.reader.scan(REPO, await lake.branch())]
    assert [c for b in blocks for c in block_changes(b)] == [entry("a", "2"), tombstone("b")]


@pytest.mark.parametrize("first_page", [1, 3, 10_000])
async def test_a_scan_reads_everything_however_short_the_pages_are(first_page: int) -> None:
    class ShortPages(MemoryKV):
        """The contract promises pages, not full ones."""

        async def scan(self, partition, *, start=b"", end=None, page_items_max=10_000):
            async for page in super().scan(
                partition, start=start, end=end, page_items_max=min(page_items_max, 2)
            ):
                yield page

    lake = await make_lake(ShortPages())
    many = [entry(f"k{i:02d}") for i in range(31)]
    await lake.write(*many)

    blocks = [b async for b in lake.staging.reader.scan(REPO, await lake.branch(), first_page=first_page)]
    assert [c for b in blocks for c in block_changes(b)] == many


async def test_what_arrives_during_a_write_goes_out_in_one_batch() -> None:
    class Counting(MemoryKV):
        batches = 0
        gate = asyncio.Event()

        async def set_rows(self, *args, **kwargs) -> None:
            Counting.batches += 1
            await self.gate.wait()
            await super().set_rows(*args, **kwargs)

    lake = await make_lake(Counting())
    first = asyncio.create_task(lake.write(entry("first")))
    await asyncio.sleep(0)
    others = [asyncio.create_task(lake.write(entry(f"k{i}"))) for i in range(100)]
    await asyncio.sleep(0)
    Counting.gate.set()
    await asyncio.gather(first, *others)

    assert Counting.batches == 2
    assert await lake.find("k99") == entry("k99")


async def test_a_write_whose_token_was_sealed_lands_in_the_next_one() -> None:
    class SealsFirst(MemoryKV):
        armed = True
        lake: Lake

        async def set_rows(self, *args, **kwargs) -> None:
            if SealsFirst.armed:
                SealsFirst.armed = False
                await sealed(self.lake)
            await super().set_rows(*args, **kwargs)

    kv = SealsFirst()
    kv.lake = lake = await make_lake(kv)
    await lake.write(entry("a"))

    branch = await lake.branch()
    assert branch.staging_token is not None
    assert len(branch.sealed) == 1
    assert await lake.find("a") == entry("a")


async def test_conditions_see_what_those_before_them_in_the_batch_wrote(lake: Lake) -> None:
    results = await asyncio.gather(
        *(lake.write(entry("a", str(i)), condition=IfAbsent()) for i in range(10)), return_exceptions=True
    )

    assert [r for r in results if r is None] == [None]
    assert all(isinstance(r, PreconditionError) for r in results if r is not None)
    assert await lake.find("a") == entry("a", str(results.index(None)))


@pytest.mark.parametrize("layer", ["base", "sealed", "staging"])
async def test_a_condition_looks_into_every_layer(lake: Lake, layer: str) -> None:
    if layer == "base":
        lake.base.entries["a"] = entry("a", "old")
    else:
        await lake.write(entry("a", "old"))
    if layer == "sealed":
        await sealed(lake)

    with pytest.raises(PreconditionError):
        await lake.write(entry("a", "new"), condition=IfAbsent())
    with pytest.raises(PreconditionError):
        await lake.write(entry("a", "new"), condition=IfChecksum("other"))
    await lake.write(entry("a", "new"), condition=IfChecksum("old"))
    assert await lake.find("a") == entry("a", "new")


async def test_a_deleted_object_is_absent(lake: Lake) -> None:
    lake.base.entries["a"] = entry("a", "old")
    await lake.write(tombstone("a"))

    with pytest.raises(PreconditionError):
        await lake.write(entry("a"), condition=IfChecksum("old"))
    await lake.write(entry("a"), condition=IfAbsent())


async def test_a_read_modify_write_fails_if_the_object_changed(lake: Lake) -> None:
    await lake.write(entry("a", "1"))
    seen = entry("a", "1")
    await lake.write(entry("a", "2"))

    with pytest.raises(PreconditionError):
        await lake.write(structs.replace(seen, metadata={"k": "v"}), condition=IfSame(seen))


async def test_one_refused_condition_does_not_refuse_its_neighbours(lake: Lake) -> None:
    await lake.write(entry("a"))
    refused, accepted = await asyncio.gather(
        lake.write(entry("a", "2"), condition=IfAbsent()),
        lake.write(entry("b")),
        return_exceptions=True,
    )

    assert isinstance(refused, PreconditionError)
    assert accepted is None
    assert await lake.find("b") == entry("b")


async def test_writers_are_told_to_wait_at_too_many_layers(lake: Lake) -> None:
    def pile_up(branch, _now):
        for n in range(SEALED_LAYERS_SLOWDOWN):
            branch = push_layer(branch, TokenLayer(token=StagingToken(f"t{n}"), seq=0))
        return branch

    await lake.branches.update(REPO, MAIN, pile_up, landed=lambda b: False)

    with pytest.raises(UnavailableError) as caught:
        await lake.write(entry("a"))
    assert caught.value.kind is ErrorKind.TOO_MANY_LAYERS


class LosesOne(MemoryKV):
    """Loses the n-th `set_rows`: the request, or only the reply; or delivers it late."""

    lose = ""
    lake: Lake
    late = None

    async def set_rows(self, *args, **kwargs) -> None:
        lose, self.lose = self.lose, ""
        if lose == "reply":
            await super().set_rows(*args, **kwargs)
        if lose == "late":
            self.late = (args, kwargs)
        if lose == "reply, then overwritten":
            await super().set_rows(*args, **kwargs)
            self.lose = ""
            token, rows = args[0], args[1]
            other = [
                replace(r, value=rows_of_another(r.value), expected=r.expected)
                for r in rows
                if r.key != b"open"
            ]
            await super().set_rows(token, [replace(r, expected=ANY) for r in other])
        if lose:
            raise UnavailableError(ErrorKind.OUTCOME_UNKNOWN, "no answer")
        await super().set_rows(*args, **kwargs)


def rows_of_another(value: bytes) -> bytes:
    from lakebed.format.rows import decode_row, encode_row
    from lakebed.model.ids import Nonce, Path

    change, _ = decode_row(Path("a"), value)
    return encode_row(change, Nonce("another"))


from lakebed.kv.port import Expect  # noqa: E402

ANY = Expect.ANY


@pytest.mark.parametrize("condition", [None, IfAbsent()])
@pytest.mark.parametrize("lose", ["request", "reply"])
async def test_a_lost_request_or_reply_is_settled_exactly_once(lose: str, condition) -> None:
    kv = LosesOne()
    lake = await make_lake(kv)
    kv.lose = lose
    await lake.write(entry("a"), condition=condition)

    assert await lake.find("a") == entry("a")
    branch = await lake.branch()
    assert len(branch.sealed) == 1, "the token of the lost write is sealed"


async def test_a_request_that_arrives_late_lands_nowhere() -> None:
    kv = LosesOne()
    lake = await make_lake(kv)
    await lake.write(entry("z"))
    kv.lose = "late"
    await lake.write(entry("a", "1"))
    await lake.write(entry("a", "2"))

    args, kwargs = kv.late
    with pytest.raises(ConflictError):
        await kv.set_rows(*args, **kwargs)
    assert await lake.find("a") == entry("a", "2")


@pytest.mark.parametrize("condition", [None, IfAbsent()])
async def test_a_write_that_may_have_been_overwritten_is_neither_success_nor_refusal(condition) -> None:
    kv = LosesOne()
    lake = await make_lake(kv)
    await lake.write(entry("z"))
    kv.lose = "reply, then overwritten"

    with pytest.raises(UnavailableError) as caught:
        await lake.write(entry("a"), condition=condition)
    assert caught.value.kind is ErrorKind.OUTCOME_UNKNOWN


async def test_a_dropped_layer_never_reads_as_empty() -> None:
    lake = await make_lake()
    await lake.write(entry("a"))
    old = await lake.branch()
    assert old.staging_token is not None
    await lake.branches.update(
        REPO, MAIN, lambda b, _now: replace(b, staging_token=None), landed=lambda b: False
    )
    await lake.kv.drop(old.staging_token)
    await lake.write(entry("a", "new"))

    read, staged = await lake.staging.reader.lookup(REPO, old, entry("a").path)

    assert staged is not None
    assert staged.change == entry("a", "new")
    assert read.staging_token != old.staging_token
    with pytest.raises(ConflictError):
        [b async for b in lake.staging.reader.scan(REPO, old)]


async def test_a_token_nobody_has_written_to_reads_as_empty(lake: Lake) -> None:
    await lake.branches.update(
        REPO,
        MAIN,
        lambda b, _now: replace(b, staging_token=StagingToken("lake-main:fresh")),
        landed=lambda b: False,
    )

    assert await lake.find("a") is None
    assert [b async for b in lake.staging.reader.scan(REPO, await lake.branch())] == []
