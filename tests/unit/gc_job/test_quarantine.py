"""With a quarantine a sweep moves objects aside; a later run deletes them, or somebody puts them back."""

import pytest

from lakebed.errors import ErrorKind, NotFoundError, PreconditionError, UnavailableError
from lakebed.format.gc import QUARANTINE_FOLDER, QUARANTINED, quarantine_key, quarantined_key
from lakebed.spark.gc.decide import Options
from lakebed.spark.gc.protocol import mark, restore, sweep
from tests.unit.gc_job.lake import DAY, Lake

ASIDE = Options(min_age_seconds=DAY, grace_seconds=0.0, allow_large=True, quarantine_days=3.0)
NO = UnavailableError(ErrorKind.STORE_UNAVAILABLE, "no")


async def swept() -> tuple[Lake, str, str]:
    """A lake, an object that was put aside, and by which run."""
    lake = Lake()
    address = lake.put(lake.address(), size=9)
    lake.clock.at += 2 * DAY
    found = await mark(lake.world(), ASIDE)
    summary = await sweep(lake.world(), ASIDE)
    assert summary.quarantined == summary.deleted == found.marked
    return lake, address, found.run


def kept(lake: Lake) -> list[str]:
    return [key for key in lake.store.objects if key.startswith(QUARANTINE_FOLDER)]


async def test_what_is_deleted_is_kept_aside():
    lake, address, run = await swept()

    assert address not in lake.store.objects
    assert kept(lake) == [quarantine_key(run), quarantined_key(run, address)]
    assert lake.store.objects[quarantined_key(run, address)][0] == b"x" * 9


async def test_it_can_be_put_back_once():
    lake, address, run = await swept()

    assert (await restore(lake.world(), run)).objects == 1

    assert lake.store.objects[address][0] == b"x" * 9
    assert kept(lake) == []
    with pytest.raises(NotFoundError, match="nothing of run"):
        await restore(lake.world(), run)


async def test_it_is_deleted_when_its_time_is_over_and_not_before():
    lake, address, _ = await swept()
    lake.clock.at += 3 * DAY - 60
    await sweep(lake.world(), ASIDE)
    assert len(kept(lake)) == 2
    lake.clock.at += 120

    await sweep(lake.world(), ASIDE)

    assert kept(lake) == []
    assert address not in lake.store.objects


async def test_no_mark_that_was_published_before_deletes_what_was_restored():
    lake = Lake()
    address = lake.put(lake.address(), size=9)
    lake.clock.at += 2 * DAY
    first, second = await mark(lake.world(), ASIDE), await mark(lake.world(), ASIDE)
    await sweep(lake.world(), ASIDE, first.run)
    await restore(lake.world(), first.run)

    for run in (first.run, second.run):
        with pytest.raises(NotFoundError, match="still counts"):
            await sweep(lake.world(), ASIDE, run)

    assert second.marked.objects == 1
    assert address in lake.store.objects


async def test_what_was_restored_is_garbage_again_after_two_new_marks():
    lake, address, run = await swept()
    await restore(lake.world(), run)
    usual = Options(min_age_seconds=DAY, grace_seconds=DAY, allow_large=True)

    lake.clock.at += 2 * DAY
    assert (await mark(lake.world(), usual)).marked.objects == 0
    lake.clock.at += 2 * DAY
    assert (await mark(lake.world(), usual)).marked.objects == 1
    await sweep(lake.world(), usual)

    assert address not in lake.store.objects


async def test_the_marks_are_withdrawn_before_the_first_object_is_back():
    lake, _, run = await swept()
    lake.store.broken["put:data/"] = NO

    with pytest.raises(UnavailableError):
        await restore(lake.world(), run)

    assert lake.marks == []


async def test_a_run_that_put_nothing_aside_costs_no_mark():
    lake, _, _ = await swept()

    with pytest.raises(NotFoundError, match="nothing of run"):
        await restore(lake.world(), "another")

    assert len(lake.marks) == 1


@pytest.mark.parametrize("where", ["put:_lakebed/gc/quarantine", "delete:data/", "put:_lakebed/gc/v"])
async def test_a_crash_on_the_way_aside_loses_nothing(where: str):
    lake = Lake()
    address = lake.put(lake.address(), size=9)
    lake.clock.at += 2 * DAY
    run = (await mark(lake.world(), ASIDE)).run
    lake.store.broken[where] = NO
    with pytest.raises(UnavailableError):
        await sweep(lake.world(), ASIDE)
    assert {address, quarantined_key(run, address)} & lake.store.objects.keys()
    lake.store.broken.clear()

    await sweep(lake.world(), ASIDE)

    assert lake.store.objects[quarantined_key(run, address)][0] == b"x" * 9
    assert address not in lake.store.objects


@pytest.mark.parametrize("where", ["put:data/", "delete:_lakebed/gc/quarantine"])
async def test_a_crash_on_the_way_back_loses_nothing(where: str):
    lake, address, run = await swept()
    lake.store.broken[where] = NO
    with pytest.raises(UnavailableError):
        await restore(lake.world(), run)
    assert quarantine_key(run) in lake.store.objects
    lake.store.broken.clear()

    await restore(lake.world(), run)

    assert lake.store.objects[address][0] == b"x" * 9
    assert kept(lake) == []


async def test_the_quarantine_of_another_repository_is_left_alone():
    lake, _, run = await swept()
    key = quarantine_key(run)
    document = QUARANTINED.open(lake.store.objects[key][0])
    lake.uid = type(lake.uid)("another")

    with pytest.raises(PreconditionError, match="another repository"):
        await restore(lake.world(), run)
    assert document.run == run
    assert len(kept(lake)) == 2


async def test_without_a_quarantine_nothing_is_kept():
    lake = Lake()
    lake.put(lake.address())
    lake.clock.at += 2 * DAY
    plain = Options(min_age_seconds=DAY, grace_seconds=0.0, allow_large=True)
    await mark(lake.world(), plain)

    await sweep(lake.world(), plain)

    assert kept(lake) == []
    assert lake.data() == set()
