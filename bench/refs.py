"""Small operations on refs: branches created by many at once, and the daily round of a team."""

from bench.clock import Stopwatch, hammer
from bench.figure import Figure, peer
from bench.lab import COMMIT, REPO, Lab
from lakebed.versioning.merge import MergeRequest

_CALLERS = 32
_ROUNDS = 100


async def refs(lab: Lab) -> list[Figure]:
    """Create branches, 32 callers; then branch, upload, commit and merge, one after another."""
    async with lab.fresh() as site:
        catalog = site.catalog

        async def create(call: int) -> None:
            await catalog.branches.create(REPO, f"b{call}", "main")

        created = await hammer(create, callers=_CALLERS, seconds=lab.seconds)
        await catalog.objects.upload(REPO, "main", "first", b"x" * 100)
        await catalog.commits.commit(REPO, "main", COMMIT)
        rounds = lab.count(_ROUNDS)
        with Stopwatch() as watch:
            for number in range(rounds):
                branch = f"round{number}"
                await catalog.branches.create(REPO, branch, "main")
                await catalog.objects.upload(REPO, branch, f"f{number}", b"x" * 100)
                await catalog.commits.commit(REPO, branch, COMMIT)
                await catalog.diffs.merge(REPO, branch, "main", MergeRequest(commit=COMMIT))
    return [
        Figure(
            name=f"branches created, {_CALLERS} callers",
            value=created.rate,
            unit="/s",
            peer=peer(2_190),
            note=f"{created.summary()}; the peer's is over HTTP",
        ),
        Figure(
            name="rounds of branch, upload, commit, merge",
            value=rounds / watch.seconds,
            unit="/s",
            peer=peer(25),
            note="the peer's is over HTTP",
        ),
    ]
