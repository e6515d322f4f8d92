"""`Stages`: how many tasks Spark has done, asked for now and then; nothing is counted on the executors for it."""

from contextlib import suppress

from py4j.protocol import Py4JError
from pyspark import SparkStageInfo, StatusTracker

from lakebed.spark.gc.progress import HowFar


class Stages:
    """The stages of a session that were seen to run."""

    def __init__(self, tracker: StatusTracker) -> None:
        self._tracker = tracker
        self._seen: dict[int, SparkStageInfo] = {}

    def how_far(self) -> HowFar:
        """Return how many tasks are done, of those that are known of; from any thread."""
        # Spark may be ending: what was seen last is what is known then.
        with suppress(Py4JError, OSError):
            self._look()
        seen = list(self._seen.values())
        return HowFar(sum(info.numCompletedTasks for info in seen), sum(info.numTasks for info in seen))

    def _look(self) -> None:
        unfinished = {each for each, info in self._seen.items() if info.numCompletedTasks < info.numTasks}
        for stage in unfinished | set(self._tracker.getActiveStageIds()):
            info = self._tracker.getStageInfo(stage)
            if info is not None:
                self._seen[stage] = info
            else:
                self._seen.pop(stage, None)
