"""How far a Spark job is, by what its status tracker says."""

from py4j.protocol import Py4JError
from pyspark import SparkStageInfo

from lakebed.spark.gc.progress import HowFar
from lakebed.spark.gc.spark_stages import Stages


class Tracker:
    """Says what a test lets it say."""

    def __init__(self) -> None:
        self.active: list[int] = []
        self.tasks: dict[int, tuple[int, int]] = {}
        self.broken = False

    def getActiveStageIds(self) -> list[int]:  # noqa: N802  Spark's name
        if self.broken:
            raise Py4JError("gone")
        return self.active

    def getStageInfo(self, stage: int) -> SparkStageInfo | None:  # noqa: N802  Spark's name
        if stage not in self.tasks:
            return None
        total, done = self.tasks[stage]
        return SparkStageInfo(stage, 0, "", total, 0, done, 0)


def test_tasks_are_counted_of_stages_that_run_and_of_those_that_ran():
    tracker = Tracker()
    stages = Stages(tracker)  # type: ignore[arg-type]  # a class of pyspark's, not a port
    assert stages.how_far() == HowFar()

    tracker.active, tracker.tasks = [1, 2, 9], {1: (10, 4), 2: (5, 0)}
    assert stages.how_far() == HowFar(4, 15)
    tracker.active, tracker.tasks = [3], {1: (10, 10), 2: (5, 5), 3: (2, 1)}
    assert stages.how_far() == HowFar(16, 17)


def test_a_spark_that_has_ended_is_as_far_as_it_was():
    tracker = Tracker()
    stages = Stages(tracker)  # type: ignore[arg-type]  # a class of pyspark's, not a port
    tracker.active, tracker.tasks = [1], {1: (10, 4)}
    stages.how_far()
    tracker.broken = True

    assert stages.how_far() == HowFar(4, 10)
