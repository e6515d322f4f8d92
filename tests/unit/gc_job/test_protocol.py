"""A mark and a sweep, step by step, over a lake in memory."""

from lakebed.spark.gc.decide import Options
from lakebed.spark.gc.protocol import mark, sweep
from tests.unit.gc_job.lake import DAY, Lake

USUAL = Options(min_age_seconds=DAY, grace_seconds=DAY, allow_large=True)


async def test_two_marks_a_grace_apart_delete_what_nothing_refers_to():
    lake = Lake()
    kept, gone = lake.upload("main", "a/1"), lake.upload("main", "a/2")
    lake.unstage("main", "a/2")
    lake.commit("main")
    lake.clock.at += 2 * DAY

    first = await mark(lake.world(), USUAL)
    assert (first.candidates.objects, first.marked.objects) == (1, 0)
    lake.clock.at += DAY + 1
    second = await mark(lake.world(), USUAL)
    assert (second.candidates.objects, second.marked.objects) == (1, 1)
    swept = await sweep(lake.world(), USUAL)

    assert lake.data() == {kept}
    assert gone not in lake.store.objects
    assert (swept.deleted, swept.swept_at is not None) == (second.marked, True)
    lake.check()
