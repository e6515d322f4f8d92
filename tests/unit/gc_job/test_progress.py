"""Whoever watches a run sees how far it is, at any time."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from lakebed.env.work import InlineWorkers
from lakebed.format.gc import Phase
from lakebed.spark.gc.decide import Options
from lakebed.spark.gc.polars_tables import PolarsTables
from lakebed.spark.gc.ports import Started
from lakebed.spark.gc.progress import Going, HowFar, Progress, Tally
from lakebed.spark.gc.protocol import Tools, World, mark, sweep
from tests.unit.gc_job.lake import DAY, Lake, ManualClock


class Looking:
    """Looks at a phase whenever it is told to."""

    def __init__(self) -> None:
        self.look: Callable[[], Going] | None = None
        self.seen: list[tuple[str, int]] = []

    def begins(self, phase: str, look: Callable[[], Going]) -> None:
        self.look = look

    def now(self) -> None:
        if self.look is not None:
            going = self.look()
            self.seen.append((going.phase, going.done))

    def ends(self, phase: Phase) -> None:
        self.look = None

    def warns(self, message: str) -> None: ...


def watched(lake: Lake, looking: Looking) -> World[Any]:
    tally = Tally()

    def tools(started: Started) -> Tools[Any]:
        tables = PolarsTables(
            lake.store,
            namespace=started.namespace,
            clock=lake.clock,
            workers=InlineWorkers(),
            count=tally.add,
        )
        return Tools(lake.store, tables, tally.how_far)

    return World(server=lake, open=tools, clock=lake.clock, watcher=looking)


async def test_objects_are_counted_while_the_store_is_listed():
    lake, looking = Lake(), Looking()
    for _ in range(9):
        lake.put(lake.address())
    lake.clock.at += 2 * DAY
    original = lake.store._rows

    def rows(keys: Any) -> Any:
        looking.now()
        return original(keys)

    lake.store._rows = rows  # type: ignore[method-assign]
    await mark(watched(lake, looking), Options(min_age_seconds=DAY, grace_seconds=0.0))

    listed = [count for phase, count in looking.seen if phase == "list the store"]
    assert listed == sorted(listed)
    assert 0 < listed[-1] < 9


@pytest.mark.parametrize("days", [None, 1.0])
async def test_objects_are_counted_while_they_go(monkeypatch: pytest.MonkeyPatch, days: float | None):
    monkeypatch.setattr("lakebed.spark.gc.sweep.DELETE_BATCH", 2)
    lake, looking = Lake(), Looking()
    for _ in range(6):
        lake.put(lake.address())
    lake.clock.at += 2 * DAY
    options = Options(min_age_seconds=DAY, grace_seconds=0.0, allow_large=True, quarantine_days=days)
    await mark(lake.world(), options)
    original = lake.store.on_delete

    def on_delete(keys: Sequence[str]) -> None:
        looking.now()
        original(keys)

    lake.store.on_delete = on_delete
    await sweep(watched(lake, looking), options)

    expected = [0, 2, 4] if days is None else [6, 6, 6]
    assert looking.seen == [("delete", count) for count in expected]


def test_a_phase_counts_from_its_beginning():
    clock, looking, done = ManualClock(), Looking(), [HowFar(5, 7)]
    progress = Progress(clock=clock, watcher=looking, how_far=lambda: done[0])

    with progress.phase("list"):
        clock.at += 4
        done[0] = HowFar(8, 17)
        assert looking.look is not None
        going = looking.look()

    assert (going.phase, going.seconds, going.done, going.total) == ("list", 4, 3, 10)
