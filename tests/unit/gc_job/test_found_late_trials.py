"""Found in review: what a single look had marked could be deleted days later, though somebody may use it by then."""

import pytest

from lakebed.errors import ErrorKind, PreconditionError
from lakebed.spark.gc.decide import Options
from lakebed.spark.gc.protocol import mark, sweep
from tests.unit.gc_job.lake import DAY, GRACE
from tests.unit.gc_job.test_rails import a_lake


async def test_a_mark_without_a_grace_is_swept_within_minutes_or_not_at_all() -> None:
    lake, options = a_lake(), Options(min_age_seconds=DAY, grace_seconds=0.0)
    summary = await mark(lake.world(), options)
    lake.clock.at += GRACE + 1
    with pytest.raises(PreconditionError, match="Mark again") as refused:
        await sweep(lake.world(), options, summary.run)
    assert refused.value.kind is ErrorKind.GC_UNSAFE


async def test_a_mark_that_confirmed_another_is_swept_at_any_time() -> None:
    lake, options = a_lake(), Options(min_age_seconds=DAY, grace_seconds=DAY)
    await mark(lake.world(), options)
    lake.clock.at += 2 * DAY
    summary = await mark(lake.world(), options)
    lake.clock.at += 20 * DAY
    assert (await sweep(lake.world(), options, summary.run)).deleted.objects == 1
