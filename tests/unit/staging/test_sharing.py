"""Small batches of several branches share an object; what happens to one of them is nothing to the others."""

import asyncio
from dataclasses import replace

import pytest

from lakebed.env.clock import Instant
from lakebed.env.ids import SeededIds
from lakebed.errors import ErrorKind, PreconditionError, UnavailableError
from lakebed.kv.drivers.memory import MemoryKV
from lakebed.limits import SEGMENT_BATCH_ROWS, SEGMENT_PAUSE_SECONDS_MAX
from lakebed.model.ids import BranchName, Path
from lakebed.model.layers import SegmentLayer
from lakebed.staging import sharing
from lakebed.staging.appending import SegmentUse, sorted_block
from lakebed.staging.conditions import IfAbsent
from lakebed.staging.sharing import SharedSegments
from tests.unit.staging.conftest import MAIN, REPO, Lake, entry, make_lake

NAMES = [BranchName(f"b{n}") for n in range(10)]


@pytest.fixture
async def lake() -> Lake:
    lake = await make_lake(use=SegmentUse.ALWAYS)
    head = (await lake.branch()).commit_id
    for name in NAMES:
        await lake.branches.create(REPO, name, head)
    return lake


async def layers(lake: Lake, name: BranchName) -> tuple[SegmentLayer, ...]:
    branch = (await lake.branches.get(REPO, name)).value
    assert all(isinstance(layer, SegmentLayer) for layer in branch.sealed)
    return branch.sealed  # type: ignore[return-value]  # asserted above


async def found(lake: Lake, name: BranchName, path: str):
    branch = (await lake.branches.get(REPO, name)).value
    _, staged = await lake.staging.reader.lookup(REPO, branch, Path(path))
    return staged.change if staged else None


class Uploads:
    """Watches the objects of a lake, and may hold them or let them fail."""

    def __init__(self, lake: Lake) -> None:
        self.datasets: list[set[str]] = []
        self.at_once = self.most_at_once = 0
        self.begun = asyncio.Event()
        self.go_on = asyncio.Event()
        self.go_on.set()
        self.failing = 0
        self._write = lake.segments.write_all
        lake.segments.write_all = self.write  # type: ignore[method-assign]

    async def write(self, repo, segment_id, datasets):
        self.datasets.append(set(datasets))
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        self.begun.set()
        await self.go_on.wait()
        self.at_once -= 1
        if self.failing:
            self.failing -= 1
            raise UnavailableError(ErrorKind.STORE_UNAVAILABLE, "no room")
        return await self._write(repo, segment_id, datasets)


async def test_what_waits_at_the_same_time_is_one_object_and_a_layer_of_each_branch(lake: Lake) -> None:
    await asyncio.gather(*(lake.staging.write(REPO, name, [entry("a", name)]) for name in NAMES))

    assert len(lake.bucket.objects) == 1
    ids = {layer.id for name in NAMES for layer in await layers(lake, name)}
    assert len(ids) == 1
    for name in NAMES:
        assert await found(lake, name, "a") == entry("a", name)


async def test_a_repository_has_one_upload_on_its_way_and_what_arrives_meanwhile_joins_the_next(
    lake: Lake,
) -> None:
    uploads = Uploads(lake)
    uploads.go_on.clear()
    first = asyncio.create_task(lake.staging.write(REPO, NAMES[0], [entry("a")]))
    await uploads.begun.wait()
    others = [asyncio.create_task(lake.staging.write(REPO, name, [entry("a")])) for name in NAMES[1:]]
    for _ in range(1_000):  # More turns than they need to get there.
        await asyncio.sleep(0)
    assert len(uploads.datasets) == 1
    uploads.go_on.set()
    await asyncio.gather(first, *others)

    assert [len(datasets) for datasets in uploads.datasets] == [1, len(NAMES) - 1]
    assert uploads.most_at_once == 1


async def test_two_repositories_do_not_wait_for_each_other(lake: Lake) -> None:
    uploads = Uploads(lake)
    uploads.go_on.clear()
    shared = SharedSegments(lake.kv, segments=lake.segments, clock=lake.staging._clock, ids=SeededIds(7))
    other = replace(REPO, uid="other")
    block = sorted_block([entry("a")])

    tasks = [asyncio.create_task(shared.write(repo, "d", block)) for repo in (REPO, other)]
    while len(uploads.datasets) < 2:
        await asyncio.sleep(0)
    uploads.go_on.set()
    await asyncio.gather(*tasks)


async def test_an_upload_that_fails_fails_those_who_are_in_it_and_no_others(lake: Lake) -> None:
    uploads = Uploads(lake)
    uploads.failing = 1
    uploads.go_on.clear()
    first = asyncio.create_task(lake.staging.write(REPO, NAMES[0], [entry("a")]))
    await uploads.begun.wait()
    second = asyncio.create_task(lake.staging.write(REPO, NAMES[1], [entry("a")]))
    await asyncio.sleep(0)
    uploads.go_on.set()

    with pytest.raises(UnavailableError):
        await first
    await second
    assert await layers(lake, NAMES[0]) == ()
    assert len(await layers(lake, NAMES[1])) == 1


async def test_a_branch_that_moved_meanwhile_tries_again_and_the_others_do_not(lake: Lake) -> None:
    """`NAMES[0]` writes on a condition; somebody changes its record while the object is on its way."""
    uploads = Uploads(lake)
    uploads.go_on.clear()
    tasks = [
        asyncio.create_task(lake.staging.write(REPO, NAMES[0], [entry("a")], condition=IfAbsent())),
        asyncio.create_task(lake.staging.write(REPO, NAMES[1], [entry("a")])),
    ]
    await uploads.begun.wait()
    await lake.branches.update(
        REPO, NAMES[0], lambda b, _now: replace(b, hidden=True), landed=lambda b: b.hidden
    )
    uploads.go_on.set()
    await asyncio.gather(*tasks)

    incarnations = [(await lake.branches.get(REPO, name)).value.incarnation for name in NAMES[:2]]
    assert [datasets & set(incarnations) for datasets in uploads.datasets] == [
        set(incarnations),
        {incarnations[0]},
    ]
    assert [len(await layers(lake, name)) for name in NAMES[:2]] == [1, 1]


async def test_a_condition_is_decided_again_on_what_the_branch_became_meanwhile(lake: Lake) -> None:
    uploads = Uploads(lake)
    uploads.go_on.clear()
    mine = asyncio.create_task(lake.staging.write(REPO, MAIN, [entry("a", "mine")], condition=IfAbsent()))
    await uploads.begun.wait()
    rows = await make_lake_beside(lake)
    await rows.write(entry("a", "theirs"))
    uploads.go_on.set()

    with pytest.raises(PreconditionError):
        await mine
    assert await found(lake, MAIN, "a") == entry("a", "theirs")


async def test_a_branch_of_a_later_era_uploads_again_and_the_others_keep_the_first_object(lake: Lake) -> None:
    uploads = Uploads(lake)
    uploads.go_on.clear()
    tasks = [asyncio.create_task(lake.staging.write(REPO, name, [entry("a")])) for name in NAMES[:3]]
    await uploads.begun.wait()
    await lake.branches.update(
        REPO, NAMES[0], lambda b, _now: replace(b, min_era=10**6), landed=lambda b: b.min_era == 10**6
    )
    lake.kv.now = _later  # type: ignore[method-assign]
    uploads.go_on.set()
    await asyncio.gather(*tasks)

    assert [len(datasets) for datasets in uploads.datasets] == [3, 1]
    ids = [[layer.id for layer in await layers(lake, name)] for name in NAMES[:3]]
    assert ids[1] == ids[2]
    assert ids[0][0].startswith("01000000-")


async def test_a_large_batch_has_an_object_of_its_own_and_waits_for_none(lake: Lake) -> None:
    uploads = Uploads(lake)
    uploads.go_on.clear()
    small = asyncio.create_task(lake.staging.write(REPO, NAMES[0], [entry("a")]))
    await uploads.begun.wait()
    many = [entry(f"p{n:06}") for n in range(SEGMENT_BATCH_ROWS)]
    large = asyncio.create_task(lake.staging.write(REPO, NAMES[1], many))
    while len(uploads.datasets) < 2:
        await asyncio.sleep(0)
    uploads.go_on.set()
    await asyncio.gather(small, large)

    assert uploads.most_at_once == 2


class Watched:
    """A clock that only jumps, and remembers by how much."""

    def __init__(self) -> None:
        self.at = 0.0
        self.slept: list[float] = []

    def now(self) -> Instant:
        return Instant(0)

    def monotonic(self) -> float:
        return self.at

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.at += seconds


async def share(lake: Lake, clock: Watched, *rounds: int) -> None:
    """Write for so many branches at a time."""
    shared = SharedSegments(MemoryKV(), segments=lake.segments, clock=clock, ids=SeededIds(7))
    block = sorted_block([entry("a")])
    for count in rounds:
        await asyncio.gather(*(shared.write(REPO, f"d{n}", block) for n in range(count)))


async def test_a_lone_writer_never_waits_for_company(lake: Lake) -> None:
    clock = Watched()
    await share(lake, clock, 1, 1, 1, 1)

    assert clock.slept == []
    assert len(lake.bucket.objects) == 4


async def test_the_more_branches_share_an_object_the_longer_the_next_one_waits(lake: Lake) -> None:
    clock = Watched()
    await share(lake, clock, 3, 5, 1_000, 1_000, 1)

    short, longer, *longest = clock.slept
    assert 0 < short < longer < SEGMENT_PAUSE_SECONDS_MAX
    assert longest == pytest.approx([SEGMENT_PAUSE_SECONDS_MAX] * 2)


async def test_a_full_object_is_followed_at_once(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sharing, "SEGMENT_SHARED_DATASETS", 4)
    monkeypatch.setattr(sharing, "SEGMENT_SHARED_ROWS", 6)
    uploads = Uploads(lake)
    clock = Watched()
    await share(lake, clock, 10)

    assert [len(datasets) for datasets in uploads.datasets] == [4, 4, 2]
    assert clock.slept == []

    shared = SharedSegments(MemoryKV(), segments=lake.segments, clock=clock, ids=SeededIds(8))
    blocks = [sorted_block([entry(f"p{n}") for n in range(size)]) for size in (4, 4, 9, 1)]
    await asyncio.gather(*(shared.write(REPO, f"d{n}", block) for n, block in enumerate(blocks)))
    assert uploads.datasets[3:] == [{"d0"}, {"d1"}, {"d2"}, {"d3"}]


async def test_two_batches_of_one_dataset_are_two_objects(lake: Lake) -> None:
    uploads = Uploads(lake)
    shared = SharedSegments(MemoryKV(), segments=lake.segments, clock=Watched(), ids=SeededIds(7))
    blocks = [sorted_block([entry("a", str(n))]) for n in range(2)]

    async with asyncio.timeout(60):
        first, second = await asyncio.gather(*(shared.write(REPO, "d", block) for block in blocks))

    assert uploads.datasets == [{"d"}, {"d"}]
    assert first.hash != second.hash


async def test_whoever_gave_up_waiting_is_in_no_object(lake: Lake) -> None:
    uploads = Uploads(lake)
    uploads.go_on.clear()
    shared = SharedSegments(MemoryKV(), segments=lake.segments, clock=Watched(), ids=SeededIds(7))
    block = sorted_block([entry("a")])
    first = asyncio.create_task(shared.write(REPO, "first", block))
    await uploads.begun.wait()
    gone, stays = [asyncio.create_task(shared.write(REPO, name, block)) for name in ("gone", "stays")]
    await asyncio.sleep(0)
    gone.cancel()
    await asyncio.sleep(0)
    uploads.go_on.set()
    await asyncio.gather(first, stays)

    assert uploads.datasets == [{"first"}, {"stays"}]


async def make_lake_beside(lake: Lake) -> Lake:
    """Return another process's view of the same stores, which writes rows."""
    return await make_lake(lake.kv)


async def _later() -> Instant:
    return Instant(10**6 * 3600 * 10**6)
