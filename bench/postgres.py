"""The engine on a real PostgreSQL."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from bench.clock import Latencies, Stopwatch, hammer
from bench.figure import Figure, peer
from bench.lab import COMMIT, MAIN, REPO, Lab, entry, stage, staged_path, warm_up
from lakebed.kv.port import Expect, KVStore, Row
from lakebed.server.wiring import Wired
from lakebed.testing.postgres import running_postgres

_WRITERS = 16
_SWAPS = 2_000
_ROWS = 1_000


async def postgres_swap(lab: Lab) -> list[Figure]:
    """Swaps of one record: alone, and of a branch that 16 writers stage on; then rows by the thousand."""
    async with _on_postgres(lab) as site:
        kv = site.engine.parts.kv
        alone = await _swaps(kv, "bench", b"record", lab.count(_SWAPS))
        rows = await _row_batches(kv, lab)
        contended = await _contended(site, lab)
    return [
        Figure(name="swap, p90", value=alone.percentile_ms(90), unit="ms", aim=10, note=_spread(alone)),
        Figure(
            name=f"swap of a branch with {_WRITERS} writers, p90",
            value=contended.percentile_ms(90),
            unit="ms",
            aim=10,
            note=_spread(contended),
        ),
        Figure(
            name=f"set_rows of {_ROWS:,}, one caller",
            value=rows.rate * _ROWS,
            unit="rows/s",
            note=f"{rows.summary()} a call",
        ),
    ]


async def postgres_commit(lab: Lab) -> list[Figure]:
    """Commit 100,000 staged entries."""
    count = lab.count(100_000)
    async with _on_postgres(lab) as site:
        repo = await site.catalog.repositories.get(REPO)
        await warm_up(site, repo)
        with Stopwatch() as staging:
            await stage(site, repo, MAIN, [staged_path(number) for number in range(count)])
        with Stopwatch() as watch:
            await site.catalog.commits.commit(REPO, MAIN, COMMIT)
    return [
        Figure(
            name=f"commit of {count:,} staged entries",
            value=watch.seconds,
            unit="s",
            peer=peer(0.49),
            grows=True,
            note=f"staged in {staging.seconds:.2f} s, a thousand a call",
        )
    ]


@asynccontextmanager
async def _on_postgres(lab: Lab) -> AsyncIterator[Wired]:
    with running_postgres() as server:
        async with lab.fresh(kv_url=server.create_database("bench")) as site:
            yield site


async def _swaps(kv: KVStore, partition: str, key: bytes, count: int) -> Latencies:
    latencies = Latencies()
    item = await kv.get(partition, key)
    version = item.version if item is not None else Expect.ABSENT
    with Stopwatch() as whole:
        for _ in range(count):
            with Stopwatch() as watch:
                version = await kv.swap(partition, key, b"v" * 300, expected=version)
            latencies.waits.append(watch.seconds)
    latencies.seconds = whole.seconds
    return latencies


async def _row_batches(kv: KVStore, lab: Lab) -> Latencies:
    async def write(call: int) -> None:
        rows = [Row(f"key/{call:05d}/{n:05d}".encode(), b"v" * 150) for n in range(_ROWS)]
        await kv.set_rows("bench-rows", rows)

    return await hammer(write, callers=1, seconds=lab.seconds)


async def _contended(site: Wired, lab: Lab) -> Latencies:
    """Change a branch record without changing what it means, again and again, while writers stage on it."""
    repo = await site.catalog.repositories.get(REPO)
    branches = site.engine.parts.branches
    done = asyncio.Event()
    latencies = Latencies()

    async def write(call: int) -> None:
        await site.engine.parts.kv.set_rows(
            "bench-writers",
            [Row(f"key/{call:09d}".encode(), b"v" * 150)],
            fence=branches.fence(repo, opened),
        )

    async def swap() -> None:
        with Stopwatch() as whole:
            for _ in range(lab.count(500)):
                current = await branches.get(repo, MAIN)
                with Stopwatch() as watch:
                    await branches.swap(repo, current, current.value)
                latencies.waits.append(watch.seconds)
        latencies.seconds = whole.seconds
        done.set()

    await site.engine.parts.staging.write(repo, MAIN, [entry("first", 0)])
    opened = (await branches.get(repo, MAIN)).value
    await asyncio.gather(hammer(write, callers=_WRITERS, until=done), swap())
    return latencies


def _spread(latencies: Latencies) -> str:
    return f"p50 {latencies.percentile_ms(50):.2f} ms, p99 {latencies.percentile_ms(99):.2f} ms"
