"""Many branches with small writes, all of them by segment: how many objects and bytes that makes.

The store below the repository counts what is put there. A compactor is not part of it: a branch takes
segments while it has room for layers, which the time of a run stays below.
"""

import asyncio
from dataclasses import dataclass

from bench.clock import Latencies, Stopwatch
from bench.figure import Figure
from bench.lab import REPO, Lab, entry
from lakebed.format.blocks import change_block
from lakebed.limits import SEGMENT_LAYERS_MAX
from lakebed.model.ids import BranchName
from lakebed.model.segments import SEGMENTS_FOLDER
from lakebed.server.wiring import Wired
from lakebed.staging.appending import SegmentUse

_BRANCHES = 1_000
_WRITES_PER_SECOND = 1_000


@dataclass(frozen=True, slots=True)
class _Stored:
    """The segments of a repository."""

    objects: int
    size_bytes: int


async def branches(lab: Lab) -> list[Figure]:
    """A steady load: each branch gets a write of one entry about every second, whatever became of the last."""
    count = lab.count(_BRANCHES)
    names = [BranchName(f"b{number:05d}") for number in range(count)]
    async with lab.fresh(staging_segments=SegmentUse.ALWAYS) as site:
        for name in names:
            await site.catalog.branches.create(REPO, name, "main")
        latencies = await _load(site, names, seconds=min(lab.seconds * 3, SEGMENT_LAYERS_MAX - 4))
        stored = await _stored(site)
    rows = len(latencies.waits)
    amplification = stored.size_bytes / (rows * _row_bytes())
    return [
        Figure(
            name=f"objects stored a second, {count:,} branches with {rows / latencies.seconds:,.0f} small writes/s",
            value=stored.objects / latencies.seconds,
            unit="objects/s",
            note=f"{stored.objects} objects for {rows:,} writes; {latencies.summary()} a write",
        ),
        Figure(
            name="bytes stored for each byte of rows",
            value=amplification,
            unit="x the rows",
            note=f"{stored.size_bytes / 2**20:.1f} MiB of segments",
        ),
    ]


async def _load(site: Wired, names: list[BranchName], *, seconds: float) -> Latencies:
    repo = await site.catalog.repositories.get(REPO)
    latencies = Latencies()

    async def write(number: int) -> None:
        name = names[number % len(names)]
        with Stopwatch() as watch:
            await site.engine.parts.staging.write(repo, name, [entry(f"k/{number:09d}", number)])
        latencies.waits.append(watch.seconds)

    running: set[asyncio.Task[None]] = set()
    loop = asyncio.get_running_loop()
    rate = _WRITES_PER_SECOND * len(names) / _BRANCHES
    with Stopwatch() as watch:
        started, number = loop.time(), 0
        while (passed := loop.time() - started) < seconds:
            while number < passed * rate:
                task = asyncio.create_task(write(number))
                running.add(task)
                task.add_done_callback(running.discard)
                number += 1
            await asyncio.sleep(0.001)
        await asyncio.gather(*running)
    latencies.seconds = watch.seconds
    return latencies


async def _stored(site: Wired) -> _Stored:
    repo = await site.engine.repo(REPO)
    store = await site.engine.store_of(repo)
    sizes = [info.size_bytes async for infos in store.list(SEGMENTS_FOLDER) for info in infos]
    return _Stored(len(sizes), sum(sizes))


def _row_bytes() -> int:
    size: int = change_block([entry(f"k/{0:09d}", 0)]).nbytes
    return size
