"""Both engines of garbage collection find the same and keep the same for the next run, whatever has happened."""

from pathlib import Path
from random import Random  # noqa: TID251  histories are made by chance

import pytest
from pyspark.sql import SparkSession

from lakebed.model.gc import MarkKind
from lakebed.spark.gc.decide import Options
from lakebed.spark.gc.protocol import mark, sweep
from tests.property.test_gc_histories import History
from tests.spark.both_tables import FolderLake
from tests.spark.conftest import LOCAL, on
from tests.unit.gc_job.lake import DAY, HOUR, Lake

pytestmark = pytest.mark.timeout(600)

USUAL = Options(min_age_seconds=DAY, grace_seconds=0.0, allow_large=True)
CLEAN = Options(min_age_seconds=DAY, grace_seconds=0.0, allow_large=True, clean=True)


@on(LOCAL)
async def test_both_mark_the_same_whatever_has_happened(spark: SparkSession, tmp_path: Path) -> None:
    history = History(Random(1))
    lake: Lake = FolderLake(1, tmp_path / "lake", spark)
    lake.rules = 4 * DAY
    history.lake = lake
    kinds = []
    for options in (USUAL, USUAL, CLEAN):
        for _ in range(40):
            history.users()
            history.wait(HOUR)
        history.wait(30 * HOUR)
        kinds.append((await mark(lake.world(), options)).kind)
        await sweep(lake.world(), options)
        lake.check()
    assert kinds == [MarkKind.CLEAN, MarkKind.OPTIMIZED, MarkKind.CLEAN]
