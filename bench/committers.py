"""Four committers at once on one branch, while writers stage on it."""

import asyncio

from bench.clock import hammer
from bench.figure import Figure
from bench.lab import COMMIT, MAIN, REPO, Lab, entry, staged_path, warm_up
from lakebed.catalog.session import Session
from lakebed.errors import ErrorKind, InvalidInputError, LakebedError

_COMMITTERS = 4
_WRITERS = 16


async def committers(lab: Lab) -> list[Figure]:
    """Count commits, failures and acknowledged writes, and whether all of these are there afterwards."""
    made = [0] * _COMMITTERS
    failures = 0
    async with lab.fresh() as site:
        repo = await site.catalog.repositories.get(REPO)
        await warm_up(site, repo)
        stop = asyncio.Event()

        async def commit(number: int) -> None:
            nonlocal failures
            while not stop.is_set():
                try:
                    await site.catalog.commits.commit(REPO, MAIN, COMMIT)
                    made[number] += 1
                except InvalidInputError as error:
                    if error.kind is not ErrorKind.NO_CHANGES:
                        raise
                except LakebedError:
                    failures += 1

        async def write(call: int) -> None:
            await site.engine.parts.staging.write(repo, MAIN, [entry(staged_path(call), call)])

        committing = [asyncio.create_task(commit(number)) for number in range(_COMMITTERS)]
        writes = await hammer(write, callers=_WRITERS, seconds=2 * lab.seconds)
        stop.set()
        await asyncio.gather(*committing)
        found = await _count(site.catalog)
    assert found == len(writes.waits), f"{found} objects of {len(writes.waits)} acknowledged writes"
    return [
        Figure(
            name=f"commits, {_COMMITTERS} committers and {_WRITERS} writers on one branch",
            value=sum(made) / writes.seconds,
            unit="/s",
            note=f"each {', '.join(map(str, sorted(made)))}; {failures} failed",
        ),
        Figure(
            name="writes acknowledged meanwhile",
            value=writes.rate,
            unit="/s",
            note=f"{writes.summary()}; all {found:,} are there",
        ),
    ]


async def _count(catalog: Session) -> int:
    count, after = 0, ""
    while True:
        page = await catalog.objects.list(REPO, MAIN, after=after, amount=1000)
        count += int(page.rows.num_rows)
        if not page.has_more:
            return count
        after = page.last
