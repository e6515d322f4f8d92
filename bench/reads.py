"""Point reads and listings of a warm tree and of staged rows, through the catalog.

The peer's figures are over HTTP, with 32 or 8 connections: for information where
the edge will cost more than the engine.
"""

import numpy as np

from bench.clock import hammer
from bench.figure import Figure, peer
from bench.lab import REPO, Lab, stage, staged_path, tree_path
from lakebed.errors import NotFoundError
from lakebed.format.blocks import block_entries
from lakebed.server.wiring import Wired

_READERS = 8
_STAGED = 10_000


async def list_pages(lab: Lab) -> list[Figure]:
    """Pages of 1,000 from random places, and listings folded at a delimiter, 8 readers at once."""
    numbers = np.random.default_rng(5).integers(0, lab.tree_count, 100_000).tolist()
    async with lab.tree() as site:
        objects = site.catalog.objects

        async def page(call: int) -> None:
            found = await objects.list(
                REPO, "base", after=tree_path(numbers[call % len(numbers)]), amount=1000
            )
            assert found.rows.num_rows <= 1000

        async def page_of_values(call: int) -> None:
            found = await objects.list(
                REPO, "base", after=tree_path(numbers[call % len(numbers)]), amount=1000
            )
            block_entries(found.rows)

        async def folded(_call: int) -> None:
            found = await objects.list(REPO, "base", prefix="imp/", delimiter="/", amount=100)
            assert len(found.prefixes) == min(100, lab.tree_count)

        async def page_with_staged(call: int) -> None:
            after = tree_path(numbers[call % len(numbers)])
            await objects.list(REPO, "listed", after=after, amount=1000)

        await _warm(site, lab)
        pages = await hammer(page, callers=_READERS, seconds=lab.seconds)
        values = await hammer(page_of_values, callers=_READERS, seconds=lab.seconds)
        prefixes = await hammer(folded, callers=_READERS, seconds=lab.seconds)
        repo = await site.catalog.repositories.get(REPO)
        await site.catalog.branches.create(REPO, "listed", "base")
        await stage(site, repo, "listed", [f"{tree_path(n)}s" for n in numbers[:_STAGED]])
        merged = await hammer(page_with_staged, callers=_READERS, seconds=lab.seconds)
    return [
        Figure(
            name=f"pages of 1,000 of {lab.tree_count:,}",
            value=pages.rate,
            unit="/s",
            peer=peer(520),
            note=f"{pages.summary()}; as columns, as the edge will render them",
        ),
        Figure(name="the same, each row as an object", value=values.rate, unit="/s", note=values.summary()),
        Figure(
            name=f"the same with {_STAGED:,} staged rows over it",
            value=merged.rate,
            unit="/s",
            note=merged.summary(),
        ),
        Figure(
            name="100 common prefixes",
            value=prefixes.rate,
            unit="/s",
            peer=peer(700 if lab.tree_count <= 200_000 else 426),
            note=f"{prefixes.summary()}; the peer has 700 over 200,000 objects, 426 over a million",
        ),
    ]


async def stat(lab: Lab) -> list[Figure]:
    """Stat of objects that are committed, missing, staged; 32 callers."""
    numbers = np.random.default_rng(6).integers(0, lab.tree_count, 100_000).tolist()
    async with lab.tree() as site:
        objects = site.catalog.objects
        await _warm(site, lab)

        async def committed(call: int) -> None:
            await objects.stat(REPO, "base", tree_path(numbers[call % len(numbers)]))

        async def missing(call: int) -> None:
            try:
                await objects.stat(REPO, "base", f"{tree_path(numbers[call % len(numbers)])}x")
            except NotFoundError:
                return
            raise AssertionError("there is no such object")

        async def staged(call: int) -> None:
            await objects.stat(REPO, "stats", staged_path(call % _STAGED))

        found = await hammer(committed, callers=32, seconds=lab.seconds)
        absent = await hammer(missing, callers=32, seconds=lab.seconds)
        repo = await site.catalog.repositories.get(REPO)
        await site.catalog.branches.create(REPO, "stats", "base")
        await stage(site, repo, "stats", [staged_path(n) for n in range(_STAGED)])
        above = await hammer(staged, callers=32, seconds=lab.seconds)
    rates = (("committed", found, 6_680), ("missing", absent, 6_570), ("staged", above, 7_680))
    return [
        Figure(
            name=f"stat, {name}",
            value=latencies.rate,
            unit="/s",
            peer=peer(rate),
            note=f"{1e6 / latencies.rate:.0f} µs each; the peer's is over HTTP",
        )
        for name, latencies, rate in rates
    ]


async def _warm(site: Wired, lab: Lab) -> None:
    """Map every range once."""
    for number in range(0, lab.tree_count, max(1, lab.tree_count // 1000)):
        await site.catalog.objects.stat(REPO, "base", tree_path(number))
