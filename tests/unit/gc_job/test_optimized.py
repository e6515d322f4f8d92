"""What an optimized run finds, what it leaves to a clean one, and what it must remember to be safe."""

import pytest

from lakebed.model.gc import MarkKind
from lakebed.spark.gc.decide import Options
from lakebed.spark.gc.protocol import mark, sweep
from tests.unit.gc_job.lake import DAY, HOUR, Lake

USUAL = Options(min_age_seconds=DAY, grace_seconds=0.0, allow_large=True)
CLEAN = Options(min_age_seconds=DAY, grace_seconds=0.0, allow_large=True, clean=True)


async def begun() -> Lake:
    """A lake that a clean run has seen."""
    lake = Lake()
    lake.upload("main", "a/committed")
    lake.commit("main")
    lake.upload("main", "b/staged")
    lake.clock.at += 2 * DAY
    assert (await mark(lake.world(), USUAL)).kind is MarkKind.CLEAN
    return lake


async def test_it_lists_only_slices_that_were_too_new_before():
    lake = await begun()
    lake.upload("main", "c/new")
    lake.clock.at += 2 * DAY
    lake.store.log.clear()

    found = await mark(lake.world(), USUAL)

    assert (found.kind, found.listed.objects) == (MarkKind.OPTIMIZED, 1)
    assert sum(line.startswith("list data/v") for line in lake.store.log) == 1


async def test_it_finds_what_was_staged_before_and_is_no_longer():
    lake = await begun()
    lake.unstage("main", "b/staged")
    lake.clock.at += 2 * DAY

    assert (await mark(lake.world(), USUAL)).marked.objects == 1


async def test_it_finds_what_was_uploaded_since_and_is_not_referred_to():
    lake = await begun()
    lake.put(lake.address())
    lake.clock.at += 2 * DAY

    assert (await mark(lake.world(), USUAL)).marked.objects == 1


async def test_it_confirms_what_an_earlier_run_found():
    lake = await begun()
    late = Options(min_age_seconds=DAY, grace_seconds=DAY, allow_large=True)
    lake.unstage("main", "b/staged")
    lake.clock.at += 2 * DAY
    assert (await mark(lake.world(), late)).marked.objects == 0
    lake.clock.at += 2 * DAY

    found = await mark(lake.world(), late)

    assert (found.kind, found.marked.objects) == (MarkKind.OPTIMIZED, 1)


async def test_it_remembers_what_is_committed_in_slices_that_nobody_has_listed():
    lake = await begun()
    lake.upload("main", "c/1")
    lake.commit("main")
    for _ in range(2):
        assert (await mark(lake.world(), USUAL)).skipped_slices == 1
    lake.clock.at += 2 * DAY

    found = await mark(lake.world(), USUAL)

    assert (found.kind, found.listed.objects, found.candidates.objects) == (MarkKind.OPTIMIZED, 1, 0)


async def test_a_commit_that_says_it_is_from_long_ago_is_new_all_the_same():
    lake = await begun()
    lake.commit("main")
    lake.commits[lake.branches["main"].head].created_at = 0.0
    lake.clock.at += 2 * DAY

    assert (await mark(lake.world(), USUAL)).candidates.objects == 0
    lake.check()


async def test_an_old_committed_address_that_was_staged_again_waits_for_a_clean_run():
    lake = await begun()
    lake.copy("main", "a/committed", "main", "b/copy")
    await mark(lake.world(), USUAL)
    lake.unstage("main", "b/copy")
    lake.clock.at += 3 * DAY

    found = await mark(lake.world(), USUAL)

    assert (found.kind, found.candidates.objects) == (MarkKind.OPTIMIZED, 0)
    lake.check()


async def test_what_expires_waits_for_a_clean_run():
    lake = await begun()
    lake.upload("main", "a/committed")
    lake.commit("main")
    lake.rules = 0.0
    lake.clock.at += 2 * DAY

    assert (await mark(lake.world(), USUAL)).candidates.objects == 0
    assert (await mark(lake.world(), CLEAN)).marked_objects.objects == 1


async def test_an_object_that_arrived_late_in_a_slice_already_read_waits_for_a_clean_run():
    lake = Lake()
    address = lake.issue_link()
    lake.clock.at += 2 * DAY
    await mark(lake.world(), USUAL)
    lake.put(address)
    lake.clock.at += 2 * DAY

    assert (await mark(lake.world(), USUAL)).candidates.objects == 0
    assert (await mark(lake.world(), CLEAN)).marked.objects == 1


async def test_ranges_that_were_read_before_are_not_read_again():
    lake = await begun()
    lake.upload("main", "c/new")
    lake.commit("main")

    assert (await mark(lake.world(), USUAL)).ranges == 2, "b and c; a is known"


async def test_every_tenth_run_is_clean():
    lake = await begun()

    kinds = [(await mark(lake.world(), USUAL)).kind for _ in range(20)]

    assert kinds == [*[MarkKind.OPTIMIZED] * 9, MarkKind.CLEAN, *[MarkKind.OPTIMIZED] * 9, MarkKind.CLEAN]


async def test_it_does_not_count_what_a_sweep_has_deleted():
    lake = await begun()
    lake.unstage("main", "b/staged")
    lake.clock.at += 2 * DAY
    await mark(lake.world(), USUAL)
    await sweep(lake.world(), USUAL)

    found = await mark(lake.world(), USUAL)

    assert (found.kind, found.candidates.objects) == (MarkKind.OPTIMIZED, 0)


async def test_what_a_mark_found_and_nobody_swept_is_found_again():
    lake = await begun()
    lake.unstage("main", "b/staged")
    lake.clock.at += 2 * DAY
    await mark(lake.world(), USUAL)

    assert (await mark(lake.world(), USUAL)).marked.objects == 1


@pytest.mark.parametrize("longer", [3 * DAY, 9 * DAY])
async def test_slices_that_were_read_stay_read_when_ages_grow(longer: float):
    lake = await begun()
    lake.upload("main", "c/1")
    lake.commit("main")
    lake.clock.at += 2 * DAY
    await mark(lake.world(), USUAL)
    older = Options(min_age_seconds=longer, grace_seconds=0.0, allow_large=True)

    await mark(lake.world(), older)
    lake.clock.at += 10 * DAY
    found = await mark(lake.world(), USUAL)

    assert (found.kind, found.listed.objects, found.candidates.objects) == (MarkKind.OPTIMIZED, 0, 0)


async def test_a_folder_years_ahead_is_no_slice_for_as_long_as_nobody_looked_at_everything():
    lake = await begun()
    ahead = lake.address(slow=-400 * DAY)
    lake.put(ahead)
    lake.stage("main", "d", ahead)
    lake.commit("main")
    lake.clock.at += 2 * DAY
    assert (await mark(lake.world(), CLEAN)).candidates.objects == 0
    lake.clock.at += 500 * DAY

    assert (await mark(lake.world(), USUAL)).candidates.objects == 0
    lake.check()


async def test_files_of_trees_are_carried_over_and_confirmed_by_a_clean_run():
    lake = await begun()
    late = Options(min_age_seconds=DAY, grace_seconds=DAY, allow_large=True)
    lake.put(f"_lakebed/ranges/{'0' * 64}-x.parquet")
    lake.clock.at += 2 * DAY
    everything = Options(min_age_seconds=DAY, grace_seconds=DAY, allow_large=True, clean=True)
    assert (await mark(lake.world(), everything)).candidates.objects == 1
    lake.clock.at += 2 * DAY

    optimized = await mark(lake.world(), late)
    assert (optimized.kind, optimized.candidates.objects, optimized.marked.objects) == (
        MarkKind.OPTIMIZED,
        1,
        0,
    )
    clean = await mark(lake.world(), everything)
    assert clean.marked.objects == 1


async def test_what_is_too_young_is_watched():
    lake = Lake()
    address = lake.address()
    lake.clock.at += 2 * DAY
    lake.put(address)
    lake.clock.at += HOUR
    await mark(lake.world(), USUAL)
    lake.clock.at += 2 * DAY

    found = await mark(lake.world(), USUAL)

    assert (found.kind, found.candidates.objects) == (MarkKind.OPTIMIZED, 1)
