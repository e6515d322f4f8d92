"""Found by simulation: a trial, with ages shorter than an address is good for, lists an upload that is just under way.

An upload stores its bytes first and stages its entry second. Until then nothing names it, so only its age, or the second
mark, protects it.
"""

from lakebed.spark.gc.decide import Options
from lakebed.spark.gc.protocol import mark, sweep
from tests.unit.gc_job.lake import DAY, GRACE, LINK, Lake

TRIAL = Options(min_age_seconds=0.0, grace_seconds=GRACE, allow_large=True)
USUAL = Options(min_age_seconds=DAY, grace_seconds=DAY, allow_large=True)


def an_upload_under_way(*, seconds: float) -> tuple[Lake, str]:
    """Return a lake with an upload that was stored so long ago, and is staged when the next run has listed commits."""
    lake = Lake()
    address = lake.put(lake.address())
    lake.clock.at += seconds

    async def stage(call: str) -> None:
        if call == "commits":
            lake.stage("main", "a", address)

    lake.between = stage
    return lake, address


async def test_a_trial_lists_an_upload_that_is_under_way_and_never_marks_it():
    lake, address = an_upload_under_way(seconds=10.0)

    first = await mark(lake.world(), TRIAL)
    lake.clock.at += GRACE + 1
    second = await mark(lake.world(), TRIAL)
    await sweep(lake.world(), TRIAL)

    assert (first.candidates.objects, first.marked.objects) == (1, 0)
    assert (second.candidates.objects, second.marked.objects) == (0, 0)
    assert address in lake.data()


async def test_a_run_that_is_no_trial_does_not_even_list_it():
    lake, address = an_upload_under_way(seconds=LINK)

    first = await mark(lake.world(), USUAL)

    assert first.candidates.objects == 0
    assert lake.staged() == {address}
