"""Staging: single entries and batches on an idle server, and single entries while a large commit runs."""

import asyncio

from bench.clock import Latencies, Stopwatch, hammer
from bench.figure import Figure, peer
from bench.lab import COMMIT, MAIN, REPO, Lab, entry, stage, staged_path, warm_up
from lakebed.model.repository import Repository
from lakebed.server.wiring import Wired

_CALLERS = 32
_BATCH = 1_000


async def stage_idle(lab: Lab) -> list[Figure]:
    """Single-entry writes of 32 callers, and batches of 1,000 of four."""
    async with lab.fresh() as site:
        repo = await site.catalog.repositories.get(REPO)
        single = await _writers(site, repo, "k", seconds=lab.seconds)

        async def batch(call: int) -> None:
            first = call * _BATCH
            entries = [entry(f"b/{first + n:09d}", first + n) for n in range(_BATCH)]
            await site.engine.parts.staging.write(repo, MAIN, entries)

        batches = await hammer(batch, callers=4, seconds=lab.seconds)
    return [
        Figure(
            name=f"entries staged one by one, {_CALLERS} callers",
            value=single.rate,
            unit="/s",
            peer=peer(4_120),
            note=f"{single.summary()}; the peer's is over HTTP",
        ),
        Figure(
            name=f"entries staged {_BATCH:,} a call, 4 callers",
            value=batches.rate * _BATCH,
            unit="/s",
            note=f"{batches.summary()} a call",
        ),
    ]


async def stage_during_commit(lab: Lab) -> list[Figure]:
    """Single-entry writes on a branch of which 500,000 entries are being committed."""
    count = lab.count(500_000)
    async with lab.fresh() as site:
        repo = await site.catalog.repositories.get(REPO)
        await warm_up(site, repo)
        idle = await _writers(site, repo, "idle", seconds=lab.seconds)
        await stage(site, repo, MAIN, [staged_path(number) for number in range(count)])
        committed = asyncio.Event()

        async def commit() -> float:
            with Stopwatch() as watch:
                await site.catalog.commits.commit(REPO, MAIN, COMMIT)
            committed.set()
            return watch.seconds

        busy, seconds = await asyncio.gather(
            _writers(site, repo, "busy", until=committed),
            commit(),
        )
    return [
        Figure(
            name=f"staging rate during a commit of {count:,}, share of the idle rate",
            value=busy.rate / idle.rate,
            unit="x",
            aim=0.5,
            note=f"{busy.rate:,.0f}/s of {idle.rate:,.0f}/s",
        ),
        Figure(
            name="p99 of a write meanwhile",
            value=busy.percentile_ms(99),
            unit="ms",
            note=f"idle {idle.percentile_ms(99):.2f} ms; longest {max(busy.waits) * 1000:.0f} ms",
        ),
        Figure(name="that commit", value=seconds, unit="s"),
    ]


async def _writers(
    site: Wired,
    repo: Repository,
    folder: str,
    *,
    seconds: float | None = None,
    until: asyncio.Event | None = None,
) -> Latencies:
    async def write(call: int) -> None:
        await site.engine.parts.staging.write(repo, MAIN, [entry(f"{folder}/{staged_path(call)}", call)])

    return await hammer(write, callers=_CALLERS, seconds=seconds, until=until)
