"""Found by simulation: an operation that was given up stores its commit after a mark has listed all of them.

What it is built on is condemned, so the mark lists files and objects that the commit needs. It lists them once: a ref that is
put on the commit by its id, before the next mark, takes them back.
"""

from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest

from lakebed.spark.gc.decide import Options
from lakebed.spark.gc.protocol import mark, sweep
from tests.unit.gc_job.lake import DAY, Lake

USUAL = Options(min_age_seconds=DAY, grace_seconds=DAY, allow_large=True)


def at(call: str, what: Callable[[], None]) -> Callable[[str], Awaitable[None]]:
    async def between(called: str) -> None:
        if called == call:
            what()

    return between


async def a_late_commit() -> tuple[Lake, str]:
    """Return a lake with a commit of a deleted branch, stored when the first mark had its list."""
    lake = Lake()
    lake.rules = 0.0
    lake.create_branch("exp", lake.branches["main"].head)
    lake.upload("exp", "a/1")
    base = lake.commit("exp")
    entries = {**lake.commits[base].entries, "b/1": lake.upload("exp", "b/1")}
    lake.delete_branch("exp")
    lake.clock.at += 2 * DAY
    late: list[str] = []

    def store() -> None:
        late.append(lake.commit_tree("nobody's", entries, (base,)))
        del lake.branches["nobody's"]

    lake.between = at("prepared", store)
    first = await mark(lake.world(), USUAL)
    lake.between = None

    # Two objects, and the range and the metarange of the commit below.
    assert (first.candidates.objects, first.marked.objects) == (4, 0)
    lake.clock.at += DAY + 1
    return lake, late[0]


@pytest.mark.parametrize("clean", [True, False])
async def test_a_branch_on_a_late_commit_takes_back_all_that_it_needs(clean: bool):
    lake, late = await a_late_commit()
    lake.create_branch("found", late)

    second = await mark(lake.world(), replace(USUAL, clean=clean))
    await sweep(lake.world(), USUAL)
    lake.clock.at += DAY + 1
    await mark(lake.world(), replace(USUAL, clean=True))
    swept = await sweep(lake.world(), USUAL)

    assert (second.marked.objects, swept.deleted.objects) == (0, 0)
    assert late in lake.reachable_commits()
    assert set(lake.commits[late].entries.values()) <= lake.data()
    lake.check()


@pytest.mark.parametrize("call", ["begin mark", "uncommitted", "commits", "prepared", "publish"])
async def test_a_branch_on_a_late_commit_during_the_next_mark_keeps_all_or_is_refused(call: str):
    lake, late = await a_late_commit()
    lake.between = at(call, lambda: lake.create_branch("found", late))

    await mark(lake.world(), replace(USUAL, clean=True))
    await sweep(lake.world(), USUAL)

    assert ("found" in lake.branches) == (call not in ("prepared", "publish"))
    lake.check()


async def test_a_late_commit_that_nobody_names_goes_and_all_below_it():
    lake, late = await a_late_commit()

    for _ in range(3):
        await mark(lake.world(), replace(USUAL, clean=True))
        await sweep(lake.world(), USUAL)
        lake.clock.at += DAY + 1

    assert lake.commits[late].condemned
    assert (lake.data(), lake.files()) == (set(), set())
