"""A stash is a segment: what it holds, what keeps its file, and that it is laid over a branch once."""

from collections.abc import Awaitable, Callable
from functools import partial

import msgspec
import pytest

from lakebed.env.clock import Instant, SystemClock, after
from lakebed.errors import DeniedError, ErrorKind, NotFoundError, UnavailableError
from lakebed.format.records import decode_stash, encode_stash
from lakebed.format.rows import OPEN_KEY, OPEN_VALUE, encode_row, row_key
from lakebed.kv.drivers.memory import MemoryKV
from lakebed.kv.port import Expect, Row
from lakebed.limits import GRACE_SECONDS
from lakebed.model.ids import BranchName, Nonce, Path, StagingToken
from lakebed.model.layers import SegmentLayer, TokenLayer
from lakebed.model.segments import SEGMENTS_FOLDER, segment_key
from lakebed.model.stash import Stash, StashState
from lakebed.refs.keys import stash_key
from lakebed.testing.lake import Lake, open_lake
from lakebed.versioning import stash as stash_module
from lakebed.versioning.stash_layers import write_stash_layers
from lakebed.versioning.uncommitted import diff_uncommitted

MAIN = BranchName("main")
DAY = 24 * 3600


class Hands(SystemClock):
    """A clock with hands to turn."""

    ahead = 0.0

    def now(self) -> Instant:
        return after(super().now(), self.ahead)


class Meddled(MemoryKV):
    """Does something once, just before a swap of a record whose key begins so; the swap gets no answer if `lose`."""

    def __init__(self, clock: Hands) -> None:
        super().__init__(clock=clock)
        self._before = b""
        self.rows = 0

    def before(self, key: bytes, meanwhile: Callable[[], Awaitable[object]], *, lose: bool = False) -> None:
        self._before, self._meanwhile, self._lose = key, meanwhile, lose

    async def swap(self, partition, key, value, **options):
        if self._before and key.startswith(self._before):
            self._before = b""
            await self._meanwhile()
            if self._lose:
                raise UnavailableError(ErrorKind.OUTCOME_UNKNOWN, "no answer")
        return await super().swap(partition, key, value, **options)

    async def set_rows(self, partition, rows, **options):
        self.rows += len(rows)
        await super().set_rows(partition, rows, **options)


@pytest.fixture
def clock() -> Hands:
    return Hands()


@pytest.fixture
def kv(clock: Hands) -> Meddled:
    return Meddled(clock)


@pytest.fixture
async def lake(kv: Meddled, clock: Hands):
    async with open_lake(kv, clock=clock) as opened:
        yield opened


async def segments(lake: Lake) -> set[str]:
    store = await lake.engine.store_of(lake.repo)
    return {info.key async for infos in store.list(SEGMENTS_FOLDER) for info in infos}


async def stored(lake: Lake, stash: Stash) -> Stash:
    item = await lake.kv.get(lake.repo.partition, stash_key(stash.id))
    assert item is not None
    return decode_stash(item.value)


async def pass_time(lake: Lake, clock: Hands, seconds: float) -> None:
    clock.ahead += seconds
    await lake.engine.stashes.sweep(lake.repo)
    await lake.cleaner.clean_once()


async def test_a_stash_is_one_segment_with_its_tombstones_and_no_row_is_written(
    lake: Lake, kv: Meddled
) -> None:
    await lake.commit("main", a="1", b="1", same="1")
    await lake.put("main", a="2", c="1", same="1")
    await lake.catalog.objects.delete("lake", "main", ["b", "never-there"])
    before = kv.rows

    stash = await lake.engine.stashes.stash(lake.repo, MAIN)

    assert kv.rows == before
    assert isinstance(stash.layer, SegmentLayer)
    assert (stash.layer.entries, stash.layer.tombstones, stash.more) == (2, 1, ())
    opened = await lake.engine.parts.segments.open(lake.repo, stash.layer)
    block = opened.between(b"", None)
    gone = {name: block.column(name)[1].as_py() for name in block.column_names}
    assert gone == {
        **dict.fromkeys(gone, ""),
        "key": "b",
        "size": 0,
        "mtime": 0,
        "identity": b"",
        "deleted": True,
    }


def anyone(_stash: Stash) -> None:
    """Refuse nobody."""


async def test_a_dropped_stash_is_gone_at_once_and_its_file_after_the_grace(lake: Lake, clock: Hands) -> None:
    await lake.put("main", a="1")
    stash = await lake.engine.stashes.stash(lake.repo, MAIN)
    await lake.engine.stashes.drop(lake.repo, stash.id, allow=anyone)

    assert await lake.engine.stashes.list(lake.repo) == []
    with pytest.raises(NotFoundError, match="no stash"):
        await lake.engine.stashes.pop(lake.repo, stash.id)
    with pytest.raises(NotFoundError, match="no stash"):
        await lake.engine.stashes.drop(lake.repo, stash.id, allow=anyone)
    await pass_time(lake, clock, GRACE_SECONDS / 2)
    assert await stored(lake, stash), "a scan that began before the drop may still read it"
    await pass_time(lake, clock, GRACE_SECONDS)
    assert await lake.kv.get(lake.repo.partition, stash_key(stash.id)) is None
    await pass_time(lake, clock, 3 * 3600)
    assert await segments(lake) == set()


@pytest.mark.parametrize("first", ["pop", "drop"])
async def test_of_a_drop_and_a_pop_at_the_same_time_one_happens(lake: Lake, kv: Meddled, first: str) -> None:
    await lake.put("main", a="1")
    stash = await lake.engine.stashes.stash(lake.repo, MAIN)
    stashes = lake.engine.stashes
    pop, drop = partial(stashes.pop, lake.repo), partial(stashes.drop, lake.repo, allow=anyone)
    winner, loser = (pop, drop) if first == "pop" else (drop, pop)
    kv.before(stash_key(stash.id), partial(winner, stash.id))

    with pytest.raises(NotFoundError, match="no stash"):
        await loser(stash.id)

    assert await lake.show("main") == ({"a": "1"} if first == "pop" else {})


async def test_a_drop_that_is_refused_leaves_the_stash(lake: Lake) -> None:
    await lake.put("main", a="1")
    stash = await lake.engine.stashes.stash(lake.repo, MAIN)

    def refuse(_stash: Stash) -> None:
        raise DeniedError(ErrorKind.PERMISSION_DENIED, "no")

    with pytest.raises(DeniedError):
        await lake.engine.stashes.drop(lake.repo, stash.id, allow=refuse)
    assert [each.id for each in await lake.engine.stashes.list(lake.repo)] == [stash.id]


async def test_a_stash_that_is_too_large_for_a_segment_is_several_that_are_popped_together(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stash_module, "write_stash_layers", partial(write_stash_layers, rows_max=1))

    async def one_by_one(*args, **options):
        async for block in diff_uncommitted(*args, **options):
            for at in range(block.num_rows):
                yield block.slice(at, 1)

    monkeypatch.setattr("lakebed.versioning.stash_layers.diff_uncommitted", one_by_one)
    await lake.put("main", a="1", b="2", c="3")

    stash = await lake.engine.stashes.stash(lake.repo, MAIN)
    assert len((await stored(lake, stash)).layers) == 3
    assert await lake.show("main") == {}
    await lake.engine.stashes.pop(lake.repo, stash.id)

    assert await lake.show("main") == {"a": "1", "b": "2", "c": "3"}


async def test_a_stash_that_stood_for_days_can_be_popped_and_its_file_goes_when_it_was_committed(
    lake: Lake, clock: Hands
) -> None:
    await lake.put("main", a="1")
    stash = await lake.engine.stashes.stash(lake.repo, MAIN)
    for _ in range(3):
        await lake.put("main", b="1")
        await lake.engine.stashes.stash(lake.repo, MAIN)
        await pass_time(lake, clock, DAY)
    assert len(await segments(lake)) == 4

    await lake.engine.stashes.pop(lake.repo, stash.id)
    await pass_time(lake, clock, DAY)
    assert await lake.show("main") == {"a": "1"}

    await lake.commit("main")
    await pass_time(lake, clock, DAY)
    await pass_time(lake, clock, DAY)
    assert isinstance(stash.layer, SegmentLayer)
    assert segment_key(stash.layer.id) not in await segments(lake)
    assert len(await segments(lake)) == 3


async def test_a_stash_whose_file_was_swept_before_its_record_was_written_is_made_again(
    lake: Lake, kv: Meddled, clock: Hands
) -> None:
    await lake.put("main", a="1")
    kv.before(b"stashes/", lambda: pass_time(lake, clock, 3 * 3600))

    stash = await lake.engine.stashes.stash(lake.repo, MAIN)

    assert await lake.show("main") == {}
    await lake.engine.stashes.pop(lake.repo, stash.id)
    lake.engine.parts.segments._cache._held.clear()
    assert await lake.show("main") == {"a": "1"}


async def test_a_stash_that_failed_leaves_a_file_that_the_cleaner_takes(
    lake: Lake, kv: Meddled, clock: Hands
) -> None:
    async def fail() -> None:
        raise UnavailableError(ErrorKind.STORE_UNAVAILABLE, "down")

    await lake.put("main", a="1")
    kv.before(b"stashes/", fail)
    with pytest.raises(UnavailableError):
        await lake.engine.stashes.stash(lake.repo, MAIN)
    assert len(await segments(lake)) == 1

    await pass_time(lake, clock, DAY)
    assert await segments(lake) == set()
    assert await lake.show("main") == {"a": "1"}


@pytest.mark.parametrize("lose", [False, True])
async def test_a_popper_that_slept_until_all_is_forgotten_does_not_lay_it_there_again(
    lake: Lake, kv: Meddled, clock: Hands, *, lose: bool
) -> None:
    await lake.put("main", a="1")
    stash = await lake.engine.stashes.stash(lake.repo, MAIN)

    async def others() -> None:
        await lake.engine.stashes.list(lake.repo)  # Finishes the pop.
        await lake.commit("main")
        await lake.commit("main", a="2")
        clock.ahead += GRACE_SECONDS / 2  # The branch forgets before the record goes.
        for _ in range(3):
            clock.ahead += GRACE_SECONDS / 2 + 1
            await lake.cleaner.clean_once()

    kv.before(b"branches/", others, lose=lose)
    popped = await lake.engine.stashes.pop(lake.repo, stash.id)

    assert popped.state is StashState.POPPED
    assert await lake.show("main") == {"a": "2"}


async def test_a_stash_that_is_popped_while_the_sweeper_reads_keeps_its_file(
    lake: Lake, clock: Hands, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However slow the sweeper is: here the record of the popped stash is gone before it goes on."""
    await lake.put("main", orphan="1")
    orphan = await lake.engine.stashes.stash(lake.repo, MAIN)
    await lake.kv.delete_rows(lake.repo.partition, [stash_key(orphan.id)])
    await lake.put("main", a="1")
    stash = await lake.engine.stashes.stash(lake.repo, MAIN)
    clock.ahead += DAY
    reads = []
    scan_records = lake.cleaner._sweeper._references.__globals__["scan_records"]

    async def slow(kv, partition, folder, **options):
        async for items in scan_records(kv, partition, folder, **options):
            yield items
        reads.append(folder)
        if (
            len(reads) == 4
        ):  # Suspects are read, eras raised, and the first of the two reads that count is over.
            await lake.engine.stashes.pop(lake.repo, stash.id)
            clock.ahead += 2 * GRACE_SECONDS
            await lake.engine.stashes.sweep(lake.repo)

    monkeypatch.setattr("lakebed.refs.segment_sweeper.scan_records", slow)
    assert await lake.cleaner._sweeper.sweep(lake.repo, clock.now()) == 1

    assert len(reads) == 5
    assert await lake.kv.get(lake.repo.partition, stash_key(stash.id)) is None
    assert await lake.show("main") == {"a": "1"}
    lake.engine.parts.segments._cache._held.clear()
    assert await lake.show("main") == {"a": "1"}


async def test_a_stash_of_an_older_lakebed_is_popped_from_its_rows(lake: Lake) -> None:
    await lake.commit("main", a="1")
    entry = await lake.catalog.objects.stat("lake", "main", "a")
    token = StagingToken("lake-main:old")
    moved = msgspec.structs.replace(entry, path=Path("b"))
    await lake.kv.set_rows(
        token, [Row(OPEN_KEY, OPEN_VALUE), Row(row_key("b"), encode_row(moved, Nonce("n")))]
    )
    head = (await lake.engine.parts.branches.get(lake.repo, MAIN)).value.commit_id
    old = Stash(
        id=Nonce("old"),
        branch=MAIN,
        base=head,
        layer=TokenLayer(token=token, seq=0),
        message="",
        state=StashState.STANDING,
        at=Instant(5),
    )
    await lake.kv.swap(lake.repo.partition, stash_key(old.id), encode_stash(old), expected=Expect.ABSENT)

    await lake.engine.stashes.pop(lake.repo, old.id)

    assert await lake.show("main") == {"a": "1", "b": "1"}
