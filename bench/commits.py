"""Commits of many staged entries, and of one after that."""

from statistics import median

from bench.clock import Stopwatch
from bench.figure import Figure, peer
from bench.lab import COMMIT, REPO, Lab, stage, staged_path, warm_up
from lakebed.model.repository import Repository
from lakebed.server.wiring import Wired

_NEXT = peer(0.03, 0.17)


async def commit_100k(lab: Lab) -> list[Figure]:
    """Commit 100,000 staged entries into an empty branch, three times."""
    return await _commit_many(lab, lab.count(100_000), peer(0.29), repeats=3)


async def commit_500k(lab: Lab) -> list[Figure]:
    """The same with 500,000, once."""
    return await _commit_many(lab, lab.count(500_000), peer(1.5), repeats=1)


async def commit_one(lab: Lab) -> list[Figure]:
    """Commit one object into the large tree."""
    async with lab.tree() as site:
        repo = await site.catalog.repositories.get(REPO)
        await site.catalog.branches.create(REPO, "one", "base")
        seconds = await _commit_ones(site, repo, "one", "imp/d042/one-more")
    return [Figure(name=f"one object in {lab.tree_count:,}", value=seconds, unit="s", peer=_NEXT)]


async def _commit_many(lab: Lab, count: int, against: tuple[float, float], *, repeats: int) -> list[Figure]:
    paths = [staged_path(number) for number in range(count)]
    commits, stagings = [], []
    async with lab.fresh() as site:
        repo = await site.catalog.repositories.get(REPO)
        await warm_up(site, repo)
        for number in range(repeats):
            branch = f"try{number}"
            await site.catalog.branches.create(REPO, branch, "main")
            with Stopwatch() as watch:
                await stage(site, repo, branch, paths)
            stagings.append(watch.seconds)
            with Stopwatch() as watch:
                await site.catalog.commits.commit(REPO, branch, COMMIT)
            commits.append(watch.seconds)
        then = await _commit_ones(site, repo, "try0", "one-more")
    runs = ", ".join(f"{seconds:.2f}" for seconds in commits)
    return [
        Figure(
            name=f"commit of {count:,} staged entries",
            value=median(commits),
            unit="s",
            peer=against,
            grows=True,
            note=f"runs: {runs} s; staged in {min(stagings):.2f} s, a thousand a call",
        ),
        Figure(name="then of one object", value=then, unit="s", peer=_NEXT),
    ]


async def _commit_ones(site: Wired, repo: Repository, branch: str, path: str) -> float:
    """Return what a commit of one new object takes, after one that does not count."""
    seconds = []
    for number in range(6):
        await stage(site, repo, branch, [f"{path}{number}"], first=number)
        with Stopwatch() as watch:
            await site.catalog.commits.commit(REPO, branch, COMMIT)
        seconds.append(watch.seconds)
    return median(seconds[1:])
