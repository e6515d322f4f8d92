"""Diff and merge of scattered changes in the large tree."""

from statistics import median

import numpy as np

from bench.clock import Stopwatch, timed
from bench.figure import Figure, peer
from bench.lab import COMMIT, REPO, Lab, stage
from lakebed.catalog.diffs import DiffQuery
from lakebed.model.repository import Repository
from lakebed.server.wiring import Wired
from lakebed.versioning.merge import MergeRequest

_CHANGES = 300
_MERGES = 3


async def diff(lab: Lab) -> list[Figure]:
    """Diff a branch with 300 scattered new objects against its base."""
    async with lab.tree() as site:
        repo = await site.catalog.repositories.get(REPO)
        await _changed_branch(site, repo, "differs", seed=2)

        async def once() -> None:
            page = await site.catalog.diffs.diff(REPO, "base", "differs", DiffQuery(amount=1000))
            assert page.rows.num_rows == _CHANGES, f"{page.rows.num_rows} differences"

        seconds = await timed(once, repeats=5, warm_up=True)
    return [
        Figure(
            name=f"{_CHANGES} differences in {lab.tree_count:,} objects",
            value=seconds,
            unit="s",
            peer=peer(1.05),
            grows=True,
        )
    ]


async def merge(lab: Lab) -> list[Figure]:
    """Merge 300 scattered changes into a branch that has 300 others."""
    async with lab.tree() as site:
        repo = await site.catalog.repositories.get(REPO)
        await _changed_branch(site, repo, "source", seed=3)
        seconds = []
        for number in range(1 + _MERGES):
            dest = f"dest{number}"
            await _changed_branch(site, repo, dest, seed=4 + number)
            with Stopwatch() as watch:
                merged = await site.catalog.diffs.merge(REPO, "source", dest, MergeRequest(commit=COMMIT))
            assert merged.counts.added == _CHANGES, f"{merged.counts}"
            seconds.append(watch.seconds)
    return [
        Figure(
            name=f"{_CHANGES} changes on each side of {lab.tree_count:,} objects",
            value=median(seconds[1:]),
            unit="s",
            peer=peer(1.9),
            grows=True,
            note=f"first, not counted: {seconds[0]:.2f} s",
        )
    ]


async def _changed_branch(site: Wired, repo: Repository, name: str, *, seed: int) -> None:
    """Commit new objects at random places onto a new branch of the large tree."""
    await site.catalog.branches.create(REPO, name, "base")
    folders = np.random.default_rng(seed).integers(0, 100, _CHANGES)
    paths = [f"imp/d{folder:03d}/{name}{number:05d}" for number, folder in enumerate(folders)]
    await stage(site, repo, name, paths)
    await site.catalog.commits.commit(REPO, name, COMMIT)
